"""Merged models against the expanded reference, which these tests make by hand: every head gets its group's mean.

E features, H heads of D features, K key/value heads.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import PlanError, SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.nn import HeadedAttention, SharedLinear
from headtune.surgery import find_sites, gated, load, merge_kv, merging, prune, save
from headtune.surgery.proof import Unproven
from headtune.surgery.wiring import wirings

E, H, D = 24, 4, 6
REPEATED = "forward knows as many key/value heads as heads, so shared ones are made once and repeated"
EXACT = 1e-10  # float64, after a few layers


class Attention(nn.Module):
    """Heads that are counted by attributes, and repeated by hand."""

    def __init__(self, num_heads: int = H, num_kv_heads: int = H, fused: bool = False) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim, self.fused = num_heads, num_kv_heads, D, fused
        if fused:
            self.qkv_proj = nn.Linear(E, (num_heads + 2 * num_kv_heads) * D)
        else:
            self.q_proj = nn.Linear(E, num_heads * D)
            self.k_proj, self.v_proj = (nn.Linear(E, num_kv_heads * D) for _ in range(2))
        self.o_proj = nn.Linear(num_heads * D, E)

    def forward(self, x: Tensor) -> Tensor:
        shared = self.num_kv_heads * D
        parts = (
            self.qkv_proj(x).split([self.num_heads * D, shared, shared], dim=-1)
            if self.fused
            else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        q, k, v = (part.unflatten(-1, (-1, D)).transpose(1, 2) for part in parts)
        k, v = (part.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1) for part in (k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Layers(nn.Module):
    def __init__(self, block: Callable[[], nn.Module] = Attention) -> None:
        super().__init__()
        self.layers = nn.ModuleList(block() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def trained(model: nn.Module) -> nn.Module:
    """In float64 and eval mode, with biases and norms that are not what they were made as."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, 0.5)
    return model.double().eval()


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def meant(tensor: Tensor, kv_heads: int, groups: int) -> Tensor:
    """``(K·D, …)`` with every head of a group replaced by the mean of the group."""
    apart = tensor.detach().unflatten(0, (groups, kv_heads // groups, -1))
    return apart.mean(1, keepdim=True).expand_as(apart).flatten(0, 2)


def expand(linear: nn.Module, kv_heads: int, groups: int, rows: slice = slice(None)) -> None:
    """Do that to some rows of a linear map."""
    for parameter in linear.parameters(recurse=False):
        parameter.data[rows] = meant(parameter[rows], kv_heads, groups)


def expanded(model: nn.Module, groups: int) -> nn.Module:
    """A copy of layers of H heads, in which keys and values are all those of their group."""
    copied = copy.deepcopy(model)
    for block in copied.layers:
        expand(block.k_proj, H, groups)
        expand(block.v_proj, H, groups)
    return copied


def expand_mha(block: nn.MultiheadAttention, groups: int) -> None:
    for parameter in (block.in_proj_weight, block.in_proj_bias):
        for start in (E, 2 * E):
            parameter.data[start : start + E] = meant(parameter[start : start + E], H, groups)


def expand_conv1d(layer: nn.Module, *starts: int) -> None:
    """The same for two groups, where the weight is (in, out)."""
    for start in starts:
        columns = slice(start, start + E)
        layer.weight.data[:, columns] = meant(layer.weight[:, columns].T, H, 2).T
        layer.bias.data[columns] = meant(layer.bias[columns], H, 2)


def shared(model: nn.Module, inputs: Any, kv_heads: int) -> HeadPlan:
    sites = find_sites(model, inputs)
    return HeadPlan.of({site.path: HeadCount(site.num_heads, kv_heads, site.head_dim) for site in sites})


def apart(one: nn.Module, other: nn.Module, *inputs: Tensor) -> float:
    with torch.no_grad():
        left, right = (model(*inputs) for model in (one, other))
    first, second = (value[0] if isinstance(value, tuple) else value for value in (left, right))
    return float((first - second).abs().max())


@pytest.mark.parametrize("groups", [2, 1])
def test_a_transformer_of_torch(groups: int) -> None:
    model = trained(nn.Transformer(E, H, 1, 1, 32, batch_first=True))
    inputs = (data(2, 5, E), data(2, 7, E))
    truth = copy.deepcopy(model)
    for block in truth.modules():
        if isinstance(block, nn.MultiheadAttention):
            expand_mha(block, groups)
    merged = merge_kv(model, shared(model, inputs, groups), inputs)
    assert {site.present for site in find_sites(merged, inputs)} == {HeadCount(H, groups, D)}
    assert apart(merged, truth, *inputs) <= EXACT < 1e-2 < apart(model, truth, *inputs)


def test_multihead_attention_alone() -> None:
    model, x = trained(nn.MultiheadAttention(E, H, batch_first=True)), data(2, 7, E)
    truth = copy.deepcopy(model)
    expand_mha(truth, 2)
    merged = merge_kv(model, shared(model, (x, x, x), 2), (x, x, x))
    assert isinstance(merged, HeadedAttention)
    assert merged.k_proj.weight.shape == (2 * D, E)
    assert torch.equal(merged.v_proj.bias.view(2, D), model.in_proj_bias[2 * E :].view(2, 2, D).mean(1))
    assert apart(merged, truth, x, x, x) <= EXACT < 1e-2 < apart(model, truth, x, x, x)


@pytest.mark.parametrize(("present", "wanted"), [(4, 2), (4, 1), (2, 1)])
@pytest.mark.parametrize("fused", [False, True])
def test_blocks_written_by_hand(present: int, wanted: int, fused: bool) -> None:
    model = trained(Layers(lambda: Attention(H, present, fused)))
    x, truth = data(2, 7, E), copy.deepcopy(model)
    for block in truth.layers:
        if fused:
            expand(block.qkv_proj, present, wanted, slice(H * D, (H + present) * D))
            expand(block.qkv_proj, present, wanted, slice((H + present) * D, None))
        else:
            expand(block.k_proj, present, wanted)
            expand(block.v_proj, present, wanted)
    merged = merge_kv(model, shared(model, (x,), wanted), (x,))
    assert all(layer.num_kv_heads == wanted for layer in merged.layers)
    saved = 2 * 2 * (present - wanted) * D * (E + 1)
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in merged.parameters()) == saved
    assert apart(merged, truth, x) <= EXACT < 1e-2 < apart(model, truth, x)


def test_only_the_sites_that_change() -> None:
    model, x = trained(Layers()), data(2, 7, E)
    truth = copy.deepcopy(model)
    expand(truth.layers[1].k_proj, H, 1)
    expand(truth.layers[1].v_proj, H, 1)
    plan = HeadPlan.of({"layers.0": HeadCount(H, H, D), "layers.1": HeadCount(H, 1, D)})
    merged = merge_kv(model, plan, (x,))
    assert apart(merged, truth, x) <= EXACT
    state = model.layers[0].state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in merged.layers[0].state_dict().items())


def test_nothing_to_merge_is_a_copy() -> None:
    model, x = trained(Layers()), data(2, 7, E)
    merged = merge_kv(model, shared(model, (x,), H), (x,))
    assert merged is not model
    assert apart(merged, model, x) == 0


def test_the_mean_is_taken_in_float64_and_rounded_once() -> None:
    model, x = Layers().to(torch.bfloat16), data(2, 7, E).bfloat16()
    merged = merge_kv(model, shared(model, (x,), 1), (x,))
    mean = model.layers[0].k_proj.weight.detach().double().view(H, D, E).mean(0)
    assert torch.equal(merged.layers[0].k_proj.weight, mean.bfloat16())


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    return pytest.importorskip("transformers")


IDS = torch.randint(3, 50, (2, 7), generator=torch.Generator().manual_seed(0))
SIZES = {"vocab_size": 50, "hidden_size": E, "num_hidden_layers": 2, "num_attention_heads": H, "intermediate_size": 40}


def hidden(model: nn.Module, **inputs: object) -> Tensor:
    with torch.no_grad():
        return model(**inputs).last_hidden_state


def test_llama(transformers: ModuleType) -> None:
    """As its author builds it, too: from a configuration with as many key/value heads."""
    model = trained(transformers.LlamaModel(transformers.LlamaConfig(**SIZES, num_key_value_heads=4)))
    inputs = {"input_ids": IDS, "use_cache": False}
    truth = copy.deepcopy(model)
    for layer in truth.layers:
        expand(layer.self_attn.k_proj, 4, 2)
        expand(layer.self_attn.v_proj, 4, 2)
    merged = merge_kv(model, shared(model, inputs, 2), inputs)
    built = transformers.LlamaModel(transformers.LlamaConfig(**SIZES, num_key_value_heads=2)).double().eval()
    built.load_state_dict(merged.state_dict())
    padded = inputs | {"attention_mask": torch.ones(2, 7).long().index_fill(1, torch.tensor([6]), 0)}
    for given in (inputs, padded):
        assert (hidden(merged, **given) - hidden(truth, **given)).abs().max() <= EXACT
        assert torch.equal(hidden(merged, **given), hidden(built, **given))
    assert (hidden(model, **inputs) - hidden(truth, **inputs)).abs().max() > 1e-3


def bert(transformers: ModuleType, kernel: str) -> nn.Module:
    return trained(transformers.BertModel(transformers.BertConfig(**SIZES, attn_implementation=kernel)))


def test_bert_under_sdpa(transformers: ModuleType) -> None:
    model, inputs = bert(transformers, "sdpa"), {"input_ids": IDS}
    truth = copy.deepcopy(model)
    for layer in truth.encoder.layer:
        expand(layer.attention.self.key, H, 2)
        expand(layer.attention.self.value, H, 2)
    merged = merge_kv(model, shared(model, inputs, 2), inputs)
    assert merged.encoder.layer[0].attention.self.key.weight.shape == (2 * D, E)
    assert (hidden(merged, **inputs) - hidden(truth, **inputs)).abs().max() <= EXACT
    assert (hidden(model, **inputs) - hidden(truth, **inputs)).abs().max() > 1e-3


def test_bert_under_eager_repeats(transformers: ModuleType, tmp_path: Path) -> None:
    """Its eager attention wants as many key/value heads as heads."""
    model, inputs = bert(transformers, "eager"), {"input_ids": IDS}
    sdpa = bert(transformers, "sdpa")
    sdpa.load_state_dict(model.state_dict())
    with pytest.warns(UserWarning, match=REPEATED):
        merged = merge_kv(model, shared(model, inputs, 2), inputs)
    assert merged.encoder.layer[0].attention.self.key.weight.shape == (2 * D, E)
    grouped = merge_kv(sdpa, shared(sdpa, inputs, 2), inputs)
    assert (hidden(merged, **inputs) - hidden(grouped, **inputs)).abs().max() <= EXACT
    save(merged, tmp_path / "merged")
    assert torch.equal(hidden(load(tmp_path / "merged", type(model)), **inputs), hidden(merged, **inputs))


def test_a_model_that_cannot_be_merged_is_put_back_to_the_last_bit() -> None:
    class Watchful(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + self.qkv.weight.mean()

    model, x = trained(Layers(Watchful)), data(2, 7, E)
    state, parameters = copy.deepcopy(model.state_dict()), list(model.parameters())
    attributes = [dict(vars(module)) for module in model.modules()]
    for made_anew in (True, False):
        with pytest.raises(Unproven, match="is off by"):
            merge_kv(model, shared(model, (x,), 1), (x,), copy=made_anew)
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(old is new for old, new in zip(parameters, model.parameters(), strict=True))
    assert [sorted(vars(module)) for module in model.modules()] == [sorted(held) for held in attributes]


@pytest.mark.parametrize("cross", [False, True])
def test_gpt2_cuts_its_fused_projection_unevenly(transformers: ModuleType, cross: bool) -> None:
    sizes = {"vocab_size": 50, "n_embd": E, "n_layer": 2, "n_head": H, "n_positions": 16}
    config = transformers.GPT2Config(**sizes, add_cross_attention=cross, bos_token_id=1, eos_token_id=2)
    model = trained(transformers.GPT2Model(config))
    inputs = {"input_ids": IDS, "use_cache": False} | ({"encoder_hidden_states": data(2, 5, E)} if cross else {})
    truth = copy.deepcopy(model)
    for block in truth.h:
        expand_conv1d(block.attn.c_attn, E, 2 * E)
        if cross:
            expand_conv1d(block.crossattention.c_attn, 0, E)
    merged = merge_kv(model, shared(model, inputs, 2), inputs)
    assert merged.h[0].attn.split_size == (E, E // 2, E // 2)
    assert merged.h[0].attn.c_attn.weight.shape == (E, 2 * E)
    if cross:
        assert merged.h[0].crossattention.split_size == E // 2
    assert (hidden(merged, **inputs) - hidden(truth, **inputs)).abs().max() <= EXACT
    assert (hidden(model, **inputs) - hidden(truth, **inputs)).abs().max() > 1e-3


def test_gpt2_prunes_resizes_and_reloads_after_merging(transformers: ModuleType, tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=50, n_embd=E, n_layer=1, n_head=H, n_positions=16)
    model, inputs = trained(transformers.GPT2Model(config)), {"input_ids": IDS, "use_cache": False}
    merged = merge_kv(model, shared(model, inputs, 2), inputs)
    save(merged, tmp_path / "merged")
    assert torch.equal(hidden(load(tmp_path / "merged", type(model)), **inputs), hidden(merged, **inputs))
    small = prune(merged, {"h.0.attn": [2, 3]}, inputs)
    assert [site.present for site in find_sites(small, inputs)] == [HeadCount(2, 1, D)]
    assert small.h[0].attn.split_size == (2 * D, D, D)


def test_prune_and_merge_in_either_order() -> None:
    model, x = trained(Layers()), data(2, 7, E)
    kept = {"layers.0": [2, 3], "layers.1": [0, 1]}
    pruned = prune(model, kept, (x,))
    first = merge_kv(pruned, shared(pruned, (x,), 1), (x,))
    merged = merge_kv(model, shared(model, (x,), 2), (x,))
    second = prune(merged, kept, (x,))
    assert {site.present for site in find_sites(first, (x,))} == {HeadCount(2, 1, D)}
    state = second.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in first.state_dict().items())
    assert apart(first, second, x) == 0


def test_the_model_itself_stays_as_it_is() -> None:
    model, x = Layers().train(), data(2, 7, E).float()
    calls: list[int] = []
    model.layers[0].k_proj.register_forward_hook(lambda *_: calls.append(1))
    optimizer = torch.optim.AdamW(model.parameters())
    state = copy.deepcopy(model.state_dict())
    merged = merge_kv(model, shared(model, (x,), 2), (x,))
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in model.parameters()]
    assert model.training
    assert merged.training
    calls.clear()
    model(x)
    assert len(calls) == 1


def test_in_place() -> None:
    model, x = trained(Layers()), data(2, 7, E)
    copied = merge_kv(model, shared(model, (x,), 2), (x,))
    same = merge_kv(model, shared(model, (x,), 2), (x,), copy=False)
    assert same is model
    assert apart(copied, model, x) == 0


def test_every_problem_of_a_plan_is_named() -> None:
    model, x = trained(Layers()), data(2, 7, E)
    plan = HeadPlan.of(
        {"layers.0": HeadCount(6, 3, D), "layers.1": HeadCount(H, 4, 3), "elsewhere": HeadCount(4, 4, D)}
    )
    with pytest.raises(PlanError) as caught:
        merge_kv(model, plan, (x,))
    assert caught.value.problems == (
        "elsewhere: the model has no such attention block; it has layers.0, layers.1",
        "layers.0: merging keeps heads and head_dim, here 4x6; the plan has 6/3x6",
        "layers.1: merging keeps heads and head_dim, here 4x6; the plan has 4x3",
    )


@pytest.mark.parametrize(
    ("present", "wanted", "problem"),
    [
        (4, 3, "layers.{}: 3 key/value heads do not divide 4 heads; legal: 1, 2, 4"),
        (2, 4, "layers.{}: 2 key/value heads do not merge into 4 equal groups"),
    ],
)
def test_groups_of_unequal_size_are_refused(present: int, wanted: int, problem: str) -> None:
    model, x = trained(Layers(lambda: Attention(H, present))), data(2, 7, E)
    with pytest.raises(PlanError) as caught:
        merge_kv(model, shared(model, (x,), wanted), (x,))
    assert caught.value.problems == (problem.format(0), problem.format(1))


def test_six_key_value_heads_do_not_become_four() -> None:
    """Legal counts for twelve heads, but not from six: two groups would be larger than the others."""
    model, x = trained(Layers(lambda: Attention(12, 6))), data(2, 7, E)
    with pytest.raises(PlanError) as caught:
        merge_kv(model, shared(model, (x,), 4), (x,))
    assert caught.value.problems == tuple(
        f"layers.{number}: 6 key/value heads do not merge into 4 equal groups" for number in range(2)
    )


def test_a_block_that_repeats_its_heads_otherwise_is_found() -> None:
    """Query head h uses key/value head h % K, so that a mean of neighbours is another model."""

    class Tiled(Attention):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (w(x).unflatten(-1, (-1, D)).transpose(1, 2) for w in (self.q_proj, self.k_proj, self.v_proj))
            k, v = (part.repeat(1, self.num_heads // self.num_kv_heads, 1, 1) for part in (k, v))
            return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    model, x = trained(Layers(Tiled)), data(2, 7, E)
    truth = expanded(model, 2)
    with pytest.warns(UserWarning, match=REPEATED):
        merged = merge_kv(model, shared(model, (x,), 2), (x,))
    assert isinstance(merged.layers[0].k_proj, SharedLinear)
    assert apart(merged, truth, x) <= EXACT < 1e-2 < apart(model, truth, x)


class Plain(nn.Module):
    """Heads of a number, and one projection, as in nanoGPT."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = H
        self.qkv, self.out = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("groups", [2, 1])
def test_blocks_that_know_nothing_of_groups_repeat(groups: int) -> None:
    model, x = trained(Layers(Plain)), data(2, 7, E)
    truth = copy.deepcopy(model)
    for block in truth.layers:
        for start in (E, 2 * E):
            expand(block.qkv, H, groups, slice(start, start + E))
    with pytest.warns(UserWarning, match=rf"^layers\.0\.qkv, layers\.1\.qkv: {REPEATED}"):
        merged = merge_kv(model, shared(model, (x,), groups), (x,))
    assert {site.present for site in find_sites(merged, (x,))} == {HeadCount(H, groups, D)}
    assert merged.layers[0].qkv.weight.shape == (E + 2 * groups * D, E)
    assert apart(merged, truth, x) <= EXACT < 1e-2 < apart(model, truth, x)


def test_rows_of_one_head_side_by_side_repeat(transformers: ModuleType) -> None:
    config = transformers.GPTNeoXConfig(**SIZES, bos_token_id=1, eos_token_id=2)
    model, inputs = trained(transformers.GPTNeoXModel(config)), {"input_ids": IDS, "use_cache": False}
    truth = copy.deepcopy(model)
    for layer in truth.layers:
        for parameter in layer.attention.query_key_value.parameters():
            rows = parameter.data.unflatten(0, (2, 2, 3, D))  # groups, heads of a group, q/k/v
            rows[:, :, 1:] = rows[:, :, 1:].mean(1, keepdim=True).expand_as(rows[:, :, 1:])
    with pytest.warns(UserWarning, match=REPEATED):
        merged = merge_kv(model, shared(model, inputs, 2), inputs)
    assert merged.layers[0].attention.query_key_value.weight.shape == (E + 2 * 2 * D, E)
    assert (hidden(merged, **inputs) - hidden(truth, **inputs)).abs().max() <= EXACT
    assert (hidden(model, **inputs) - hidden(truth, **inputs)).abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore:.*made once")
def test_repeating_blocks_merge_again_prune_and_reload(tmp_path: Path) -> None:
    model, x = trained(Layers(Plain)), data(2, 7, E)
    once = merge_kv(model, shared(model, (x,), 2), (x,))
    twice = merge_kv(once, shared(once, (x,), 1), (x,))
    assert apart(twice, merge_kv(model, shared(model, (x,), 1), (x,)), x) <= EXACT
    kept = {"layers.0": [1, 2], "layers.1": [2, 3]}  # one of each group, and a whole group
    pruned = prune(once, kept, (x,))
    assert [site.present for site in find_sites(pruned, (x,))] == [HeadCount(2, 2, D), HeadCount(2, 1, D)]
    with gated(once, wirings(once, (x,)), {path: torch.tensor([h in kept[path] for h in range(H)]) for path in kept}):
        silenced = once(x)
    assert (pruned(x) - silenced).abs().max() <= EXACT
    for number, changed in enumerate((once, twice, pruned)):
        save(changed, tmp_path / str(number))
        loaded = load(tmp_path / str(number), lambda: Layers(Plain).double()).eval()
        assert apart(loaded, changed, x) == 0
        assert [site.present for site in find_sites(loaded, (x,))] == [s.present for s in find_sites(changed, (x,))]


def test_queries_that_are_keys_are_refused() -> None:
    class Same(Plain):
        def forward(self, x: Tensor) -> Tensor:
            q, _, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
            return self.out(F.scaled_dot_product_attention(q, q, v).transpose(1, 2).flatten(2))

    model, x = trained(Layers(Same)), data(2, 7, E)
    with pytest.raises(SurgeryError) as caught:
        merge_kv(model, shared(model, (x,), 2), (x,))
    assert caught.value.problems == tuple(
        f"layers.{number}: layers.{number}.qkv.weight makes queries that are keys as well; keep its heads"
        for number in range(2)
    )


class Mirrored(Attention):
    """Odd heads hold their keys, or their values, backwards."""

    def __init__(self, keys: bool, *, by_hand: bool) -> None:
        super().__init__()
        self.keys, self.by_hand = keys, by_hand

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, D)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        odd = (torch.arange(H) % 2 == 1)[:, None, None]
        k, v = (torch.where(odd, k.flip(-1), k), v) if self.keys else (k, torch.where(odd, v.flip(-1), v))
        y = (q @ k.mT).softmax(-1) @ v if self.by_hand else F.scaled_dot_product_attention(q, k, v)
        return self.o_proj(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("keys", [False, True])
def test_heads_in_other_orders_are_refused(keys: bool, by_hand: bool) -> None:
    model, x = trained(Layers(lambda: Mirrored(keys, by_hand=by_hand))), data(2, 7, E)
    with pytest.raises(SurgeryError) as caught:
        merge_kv(model, shared(model, (x,), 2), (x,))
    words = "keys" if keys else "values"
    assert str(caught.value.problems[0]) == (
        f"layers.0: the {words} of its heads are laid out differently in their projections (flipped, or shifted by "
        "features that nothing passes on), so that no mean of their rows is a mean of heads; keep its key/value heads"
    )


class Passing(Attention):
    """Keys and values through a function that passes nothing on for some of them."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, D)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, self.function(k), self.function(v), is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("function", [F.relu, lambda t: t.clamp(-0.1, 0.1), lambda t: F.relu(t).square()])
def test_features_that_are_dead_for_these_inputs_keep_their_place(function: Callable[[Tensor], Tensor]) -> None:
    model, x = trained(Layers(lambda: Passing(function))), data(2, 4, E)
    with torch.no_grad():
        model.layers[0].v_proj.bias[[3, D + 5]] = -100
        model.layers[1].k_proj.bias[2] = -100
    truth = expanded(model, 2)
    with pytest.warns(UserWarning, match=REPEATED):
        merged = merge_kv(model, shared(model, (x,), 2), (x,))
    assert apart(merged, truth, x) <= EXACT
    assert apart(merged, truth, 10 * data(2, 9, E)) <= EXACT


@pytest.mark.parametrize("kind", [nn.MultiheadAttention, HeadedAttention])
def test_learned_extra_keys_belong_to_every_head(kind: type[nn.Module]) -> None:
    block, x = trained(kind(E, H, add_bias_kv=True, batch_first=True)), data(2, 5, E)
    with pytest.raises(SurgeryError) as caught:
        merge_kv(block, shared(block, (x, x, x), 2), (x, x, x))
    assert str(caught.value) == (
        "the model: its learned extra key and value (add_bias_kv) belong to every head; keep its key/value heads"
    )


def test_heads_made_by_projections_of_their_own_are_refused() -> None:
    class Apart(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.keys = nn.ModuleList(nn.Linear(E, D) for _ in range(H))

        def forward(self, x: Tensor) -> Tensor:
            q, _, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
            k = torch.stack([key(x) for key in self.keys], dim=1)
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    model, x = trained(Layers(Apart)), data(2, 7, E)
    with pytest.raises(SurgeryError, match=r"layers\.0: heads that would be one are made of other features, 6 of lay"):
        merge_kv(model, shared(model, (x,), 2), (x,))


class TestTheComparisonCanFail:
    """Each plants a wrong merge, whose counts are right: where the block shares by itself, then in both ways."""

    @pytest.fixture(params=["shares by itself", "repeats"])
    def also_wrong(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
        if request.param == "repeats":
            right = merging.repeating

            def wrong(linear: nn.Module, pools: Any) -> SharedLinear:
                repeated = right(linear, pools)
                nn.init.normal_(repeated.weight)
                return repeated

            monkeypatch.setattr(merging, "repeating", wrong)
        return bool(request.param == "repeats")

    def check(self, also_wrong: bool) -> None:
        model, x = trained(Layers()), data(2, 7, E)
        state = copy.deepcopy(model.state_dict())
        if also_wrong:
            with pytest.raises(SurgeryError, match="is off by"):
                merge_kv(model, shared(model, (x,), 2), (x,), copy=False)
            assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
            return
        with pytest.warns(UserWarning, match=REPEATED):
            merged = merge_kv(model, shared(model, (x,), 2), (x,))
        assert apart(merged, expanded(model, 2), x) <= EXACT

    def test_a_head_instead_of_the_mean(self, monkeypatch: pytest.MonkeyPatch, also_wrong: bool) -> None:
        drop = merging.drop_outputs

        def dropped_without_pooling(module: nn.Linear, features: frozenset[int]) -> None:
            nn.init.normal_(module.weight)
            drop(module, features)

        monkeypatch.setattr(merging, "drop_outputs", dropped_without_pooling)
        self.check(also_wrong)

    def test_the_pools_of_other_heads(self, monkeypatch: pytest.MonkeyPatch, also_wrong: bool) -> None:
        drop = merging.drop_outputs
        monkeypatch.setattr(
            merging, "drop_outputs", lambda module, features: drop(module, frozenset(range(len(features))))
        )
        self.check(also_wrong)
