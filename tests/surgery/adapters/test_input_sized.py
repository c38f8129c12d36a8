import copy
import pickle
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.surgery import apply_plan, find_sites
from headtune.surgery.adapters.input_sized import disguise_of, dress, undress

NAMES = ["nano fused sdpa", "nano fused manual", "nano separate sdpa", "nano separate manual", "vision", "nano cross"]


def resized(model: nn.Module, inputs: tuple[Tensor, ...], *count: int) -> nn.Module:
    plan = HeadPlan.of({s.path: HeadCount(*count) for s in find_sites(model, inputs)})
    return apply_plan(model, plan, inputs, hold="head_dim")


def attend(x: Tensor, memory: Tensor, q: Tensor, kv: Tensor, out: nn.Linear, count: HeadCount, causal: bool) -> Tensor:
    """Attention by its definition, one head at a time, from projected queries and stacked keys and values."""
    heads, _, D = count
    k, v = kv.chunk(2, -1)
    done = []
    for h in range(heads):
        part = slice(h * D, (h + 1) * D)
        scores = q[..., part] @ k[..., part].mT / D**0.5
        if causal:
            scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -torch.inf)
        done.append(scores.softmax(-1) @ v[..., part])
    return out(torch.cat(done, -1))


@pytest.mark.parametrize("count", [(1, 1, 6), (3, 3, 6), (6, 6, 6), (2, 2, 5), (1, 1, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_a_resized_block_computes_attention_by_its_definition(
    zoo: SimpleNamespace, name: str, count: tuple[int, int, int]
) -> None:
    """Narrower and wider than the embedding, with every weight of the new shapes, against a loop over heads."""
    model, inputs = zoo.build(name).double(), tuple(x.double() for x in zoo.inputs(name))
    edited = resized(model, inputs, *count)
    block = edited if name == "nano cross" else edited.layers[0]["attn"]
    x = inputs[0]
    if name == "nano cross":
        q, kv, out = block.q(x), block.kv(inputs[1]), block.proj
    elif name == "vision":
        q, kv = (
            t.squeeze(-1) for t in block.qkv(x)[..., None].split([count[0] * count[2], 2 * count[0] * count[2]], 2)
        )
        out = block.proj
    elif "fused" in name:
        q, kv = block.c_attn(x).split([count[0] * count[2], 2 * count[0] * count[2]], -1)
        out = block.c_proj
    else:
        q, kv, out = block.query(x), torch.cat([block.key(x), block.value(x)], -1), block.c_proj
    expected = attend(
        x, inputs[-1], q, kv, out, HeadCount(*count), causal=name.startswith("nano ") and name != "nano cross"
    )
    torch.testing.assert_close(block(*inputs), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_it_survives_copying_pickling_compiling_and_threads(zoo: SimpleNamespace, name: str) -> None:
    inputs = zoo.inputs(name)
    model = resized(zoo.build(name), inputs, 3, 3, 6)
    expected = model(*inputs)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), compiled):
        assert torch.equal(other(*inputs), expected)
    outputs: dict[int, Tensor] = {}

    def run(number: int) -> None:
        for _ in range(5):
            outputs[number] = model(*(x * number for x in inputs))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(outputs[n], model(*(x * n for x in inputs))) for n in range(4))


def test_it_trains_and_keeps_no_tensor_alive(zoo: SimpleNamespace) -> None:
    inputs = zoo.inputs()
    model = resized(zoo.build("nano fused sdpa"), inputs, 3, 3, 6).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(20):
        loss = (model(*inputs) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    copy.deepcopy(model)  # would raise if a hook still held a tensor of the graph
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_full_width_again_needs_no_disguise(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("nano fused sdpa"), zoo.inputs()
    small = resized(model, inputs, 3, 3, 6)
    assert small.layers[0]["attn"].n_embd == 18
    smaller = resized(small, inputs, 2, 2, 6)
    assert len(smaller.layers[0]["attn"]._forward_pre_hooks) == 1
    assert len(smaller.layers[0]["attn"].c_attn._forward_pre_hooks) == 1
    full = resized(smaller, inputs, 4, 4, 6)
    assert full.layers[0]["attn"].n_embd == 24
    for module in full.modules():
        hooks = (module._forward_pre_hooks, module._forward_hooks)
        notes = (module._forward_pre_hooks_with_kwargs, module._forward_hooks_always_called)
        assert not any((*hooks, *notes))


def test_a_disguised_block_can_be_reheaded(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("vision"), zoo.inputs()
    small = resized(model, inputs, 3, 3, 6)
    sites = find_sites(small, inputs)
    assert {s.embed_dim for s in sites} == {24}
    plan = HeadPlan.of({s.path: HeadCount(9, 9, 2) for s in sites})
    again = apply_plan(small, plan, inputs, hold="width")
    assert {tuple(s.present) for s in find_sites(again, inputs)} == {(9, 9, 2)}


def test_the_models_own_hooks_stay(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("nano fused sdpa"), zoo.inputs()
    widths: list[int] = []
    model.layers[0]["attn"].register_forward_pre_hook(lambda _m, args: widths.append(args[0].shape[-1]))
    model.layers[0]["attn"].c_attn.register_forward_hook(lambda _m, _a, out: widths.append(out.shape[-1]))
    small = resized(resized(model, inputs, 3, 3, 6), inputs, 2, 2, 6)
    widths.clear()
    small(*inputs)
    assert widths == [24, 36]


def test_an_error_in_forward_leaves_nothing_behind(zoo: SimpleNamespace) -> None:
    inputs = zoo.inputs()
    model = resized(zoo.build("nano fused sdpa"), inputs, 3, 3, 6)
    expected = model(*inputs)
    block = model.layers[0]["attn"]
    block.n_head = 5
    with pytest.raises(RuntimeError):
        model(*inputs)
    block.n_head = 3
    copy.deepcopy(model)
    assert torch.equal(model(*inputs), expected)


def test_a_disguise_can_be_read_taken_off_and_put_on_again(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("nano cross"), zoo.inputs("nano cross")
    assert disguise_of(model) is None
    edited = resized(model, inputs, 3, 3, 6)
    wanted = edited(*inputs)
    assert disguise_of(edited) == (18, ("q", "kv"))
    assert disguise_of(edited.get_submodule("q")) is None
    linears = [edited.get_submodule(path) for path in ("q", "kv")]
    assert undress(edited, linears) == 18
    assert disguise_of(edited) is undress(edited, linears) is None
    dress(edited, linears, 18)
    assert torch.equal(edited(*inputs), wanted)
