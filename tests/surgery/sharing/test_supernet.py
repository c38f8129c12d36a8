"""The supernet against models that surgery makes of its weights, in float64."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from families import handwritten, of_torch, of_transformers
from torch import Tensor, nn

from headtune.errors import PlanError, SurgeryError
from headtune.heads import HeadCount, HeadPlan, HeadRange, SearchSpace, SpaceOptions
from headtune.nn import HeadedAttention
from headtune.surgery import Case, apply_plan, find_sites, gated, prune
from headtune.surgery.inputs import call
from headtune.surgery.sharing import Supernet
from headtune.surgery.wiring import wirings

CASES = {case.name: case for module in (of_torch, handwritten, of_transformers) for case in module.cases()}
SPLIT = ("nn.TransformerEncoder", "nanoGPT, fused projection", "Megatron, interleaved projection", "BERT", "GPT-2")
PRUNED = (*SPLIT, "nn.Transformer", "headtune.nn.HeadedAttention", "einops", "vit-pytorch", "Llama", "GPT-NeoX")
TOLERANCE = {"rtol": 1e-9, "atol": 1e-12}
"""Of float64: a smaller matrix is multiplied in another order."""


def set_up(name: str, **options: Any) -> tuple[Supernet, SearchSpace, Any]:
    """The supernet of a family, with weights that training may have left, the space, and inputs."""
    case: Case = CASES[name]
    model, inputs = case.build().double().eval(), case.precise_inputs
    space = SearchSpace.of(find_sites(model, inputs), SpaceOptions(**options))
    net = Supernet.of(model, inputs, space)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return net, space, inputs


def output(model: nn.Module, inputs: Any) -> Tensor:
    """The first tensor that the model puts out, whatever it is wrapped in."""
    out = call(model.eval(), inputs)
    while not isinstance(out, Tensor):
        out = next(iter(out.values())) if isinstance(out, Mapping) else out[0]
    return out


def first_heads(net: Supernet, plan: HeadPlan) -> dict[str, range]:
    return {path: range(count.num_heads) for path, count in plan if count != net.largest[path]}


@pytest.mark.parametrize("name", SPLIT)
def test_under_width_every_plan_computes_what_the_applied_model_does(name: str) -> None:
    net, space, inputs = set_up(name, hold="width", heads=(1, 2, 4))
    assert space.size == 9
    for plan in space:
        applied = apply_plan(net.model, plan, inputs, hold="width")
        with torch.no_grad(), net.at(plan) as model:
            torch.testing.assert_close(output(model, inputs), output(applied, inputs), **TOLERANCE)


@pytest.mark.parametrize("name", PRUNED)
def test_under_head_dim_every_plan_computes_what_the_pruned_model_does(name: str) -> None:
    tie = "none" if name in SPLIT[:2] else "uniform"
    net, space, inputs = set_up(name, hold="head_dim", tie=tie)
    outputs = []
    for plan in space:
        pruned = prune(net.model, first_heads(net, plan), inputs)
        with torch.no_grad(), net.at(plan) as model:
            outputs.append(output(model, inputs))
            torch.testing.assert_close(outputs[-1], output(pruned, inputs), **TOLERANCE)
            assert sum(map(torch.numel, model.parameters())) == sum(map(torch.numel, pruned.parameters()))
    assert all(not torch.allclose(one, other) for at, one in enumerate(outputs) for other in outputs[:at])


@pytest.mark.parametrize("name", ["nanoGPT, fused projection", "headtune.nn.HeadedAttention", "GPT-2"])
def test_gradients_under_head_dim_are_those_of_the_whole_model_with_gates(name: str) -> None:
    net, space, inputs = set_up(name, hold="head_dim", tie="uniform")
    wires, plan = wirings(net.model, inputs), space.smallest
    gates = {path: (torch.arange(count.num_heads) < plan[path].num_heads).double() for path, count in net.largest}
    with gated(net.model, wires, gates):
        output(net.model, inputs).square().sum().backward()
    wanted = {
        key: parameter.grad.clone() for key, parameter in net.model.named_parameters() if parameter.grad is not None
    }
    net.model.zero_grad()
    with net.at(plan) as model:
        output(model, inputs).square().sum().backward()
    found = {key: parameter.grad for key, parameter in net.model.named_parameters() if parameter.grad is not None}
    assert found.keys() == wanted.keys()
    assert all(parameter.is_leaf for parameter in net.model.parameters())
    for key, grad in wanted.items():
        torch.testing.assert_close(found[key], grad, **TOLERANCE)


def test_gradients_under_width_are_those_of_the_applied_model() -> None:
    net, space, inputs = set_up("nn.TransformerEncoder", hold="width", heads=(2, 8))
    plan = space.plan((0, 1))
    applied = apply_plan(net.model, plan, inputs, hold="width")
    output(applied, inputs).square().sum().backward()
    with net.at(plan) as model:
        output(model, inputs).square().sum().backward()
    grads = dict(net.model.named_parameters())
    for key, parameter in applied.named_parameters():
        torch.testing.assert_close(grads[key].grad, parameter.grad, **TOLERANCE)


def test_blocks_that_share_a_table_of_rotations_change_together() -> None:
    net, space, inputs = set_up("Llama", hold="width", heads=(2, 4, 8, 12), tie="uniform")
    assert space.size > 2
    for plan in space:
        applied = apply_plan(net.model, plan, inputs, hold="width")
        with torch.no_grad(), net.at(plan) as model:
            torch.testing.assert_close(output(model, inputs), output(applied, inputs), **TOLERANCE)


def test_fewer_key_heads_and_smaller_heads_have_the_first_of_them() -> None:
    torch.manual_seed(0)
    model, x = (
        of_torch.Encoder(HeadedAttention(24, 4, batch_first=True)).double().eval(),
        torch.randn(2, 7, 24).double(),
    )
    options = SpaceOptions(hold="head_dim", heads=(2, 4), kv_heads=(1, 2, 4), head_dims=(4, 6))
    space = SearchSpace.of(find_sites(model, (x,)), options)
    net = Supernet.of(model, (x,), space)
    assert net.largest["attn"] == HeadCount(4, 4, 6)
    whole = copy.deepcopy(net.model.attn)
    assert {plan["attn"].num_kv_heads for plan in space} == {1, 2, 4}
    for plan in space:
        heads, kv_heads, size = plan["attn"]
        alone = HeadedAttention(24, heads, head_dim=size, num_kv_heads=kv_heads, batch_first=True).double()

        def rows(weight: Tensor, count: int, size: int = size) -> Tensor:
            return weight.unflatten(0, (4, 6))[:count, :size].flatten(0, 1)

        with torch.no_grad():
            for side, count in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
                linear, source = getattr(alone, side), getattr(whole, side)
                linear.weight.copy_(rows(source.weight, count))
                linear.bias.copy_(rows(source.bias, count))
            alone.out_proj.weight.copy_(rows(whole.out_proj.weight.T, heads).T)
            alone.out_proj.bias.copy_(whole.out_proj.bias)
            with net.at(plan) as planned:
                torch.testing.assert_close(planned.attn(x, x, x)[0], alone(x, x, x)[0], **TOLERANCE)


def test_a_space_wider_than_the_model_widens_it() -> None:
    net, space, inputs = set_up(
        "vit-pytorch", hold="head_dim", heads=HeadRange(min=2, max=6, divisible_by=2), tie="uniform"
    )
    assert {count.num_heads for _, count in net.largest} == {6}
    assert [plan.counts[0][1].num_heads for plan in space] == [2, 4, 6]
    for plan in space:
        pruned = prune(net.model, first_heads(net, plan), inputs)
        with torch.no_grad(), net.at(plan) as model:
            torch.testing.assert_close(output(model, inputs), output(pruned, inputs), **TOLERANCE)


def test_a_ramp_is_shared_site_by_site() -> None:
    net, space, inputs = set_up("nanoGPT, three projections", hold="width", heads=(1, 2, 3, 4), tie="ramp")
    for plan in space:
        applied = apply_plan(net.model, plan, inputs, hold="width")
        with torch.no_grad(), net.at(plan) as model:
            torch.testing.assert_close(output(model, inputs), output(applied, inputs), **TOLERANCE)


def test_outside_of_a_plan_the_model_is_as_it_was_also_after_an_error() -> None:
    net, space, inputs = set_up("BERT", hold="head_dim", tie="uniform")
    before = {key: value.clone() for key, value in net.model.state_dict().items()}
    with torch.no_grad():
        wanted = output(net.model, inputs)
    with pytest.raises(ZeroDivisionError), net.at(space.smallest):
        raise ZeroDivisionError
    after = net.model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[key], value) for key, value in before.items())
    with torch.no_grad():
        assert torch.equal(output(net.model, inputs), wanted)


def test_a_plan_that_the_space_does_not_hold_is_refused() -> None:
    net, space, _ = set_up("nn.TransformerEncoder", hold="width", heads=(2, 4))
    path = space.sites[0].path
    odd = HeadPlan.of({**dict(space.smallest.counts), path: HeadCount(3, 3, 8)})
    with pytest.raises(PlanError, match=f"{path}: the supernet has no 3x8"), net.at(odd):
        pass


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nn.MultiheadAttention", "a model that is itself the attention block cannot share weights"),
        ("T5", "is a table of biases for 4 heads"),
    ],
)
def test_what_cannot_be_shared_is_refused(name: str, reason: str) -> None:
    with pytest.raises(SurgeryError, match=reason):
        set_up(name, hold="head_dim")
