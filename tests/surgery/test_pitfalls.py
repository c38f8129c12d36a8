"""Edits that pass in silence and compute something else: each is made by hand first, then by headtune.

Every test shows that the naive edit runs, and is wrong, which is why headtune guards against it. Pitfalls that have
their tests elsewhere: rows of interleaved projections (test_row_order), stale rotary tables (adapters/
test_hugging_face), a plain ``from_pretrained`` (saving/test_pretrained), gates and checkpointing (test_gates),
appended keys under a causal hint (tests/nn), nested tensors (test_transaction), heads that take turns (test_cutting).

E features, H heads of D features.
"""

import copy
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery import apply, apply_plan, captured, find_sites, gated, merge_kv, prune
from headtune.surgery.adapters import Handwritten
from headtune.surgery.wiring import wirings

E, H, D = 24, 4, 6
IDS = torch.randint(3, 50, (2, 7), generator=torch.Generator().manual_seed(0))
SIZES = {"vocab_size": 50, "hidden_size": E, "num_hidden_layers": 2, "num_attention_heads": H, "intermediate_size": 40}


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    return pytest.importorskip("transformers")


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def bert(transformers: ModuleType, heads: int = H, kernel: str = "sdpa") -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES | {"num_attention_heads": heads}, attn_implementation=kernel)
    model = transformers.BertModel(config).eval()
    for parameter in model.parameters():  # larger than a fresh model's, so that heads matter
        if parameter.dim() == 2:
            nn.init.normal_(parameter, 0.0, 0.3)
    return model


def llama(transformers: ModuleType, heads: int = H, **more: object) -> nn.Module:
    torch.manual_seed(0)
    return transformers.LlamaModel(transformers.LlamaConfig(**SIZES | {"num_attention_heads": heads}, **more)).eval()


def hidden(model: nn.Module, inputs: Any = None) -> Tensor:
    with torch.no_grad():
        return model(**(inputs or {"input_ids": IDS})).last_hidden_state


def heads_of(model: nn.Module, inputs: Any) -> set[HeadCount]:
    return {site.present for site in find_sites(model, inputs)}


def to_count(model: nn.Module, inputs: Any, heads: int) -> HeadPlan:
    """Every site re-headed, its width held."""
    sites = find_sites(model, inputs)
    return HeadPlan.of({site.path: HeadCount(heads, heads, site.width // heads) for site in sites})


class Block(nn.Module):
    """Separate projections, everything read from attributes."""

    def __init__(self, num_heads: int = H) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.scale = num_heads, E // num_heads, (E // num_heads) ** -0.5
        self.q, self.k, self.v, self.out = (nn.Linear(E, E) for _ in range(4))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attend(x))


# torch.nn


def test_head_dim_of_multihead_attention_is_read_by_nobody() -> None:
    model, x = nn.MultiheadAttention(E, H, batch_first=True).eval(), data(2, 7, E)
    naive = copy.deepcopy(model)
    naive.head_dim = 12
    assert torch.equal(naive(x, x, x)[0], model(x, x, x)[0])
    right = apply(model, to_count(model, (x, x, x), 2), (x, x, x))
    assert (right.num_heads, right.head_dim) == (2, 12)
    assert not torch.allclose(right(x, x, x)[0], model(x, x, x)[0], atol=1e-3)


def test_hooks_on_the_output_projection_never_fire() -> None:
    model, x = nn.TransformerEncoderLayer(E, H, 32, batch_first=True).eval(), data(2, 7, E)
    naive, calls = copy.deepcopy(model), []
    naive.self_attn.out_proj.register_forward_pre_hook(lambda _, args: (calls.append(1), (args[0] * 0,))[1])
    assert torch.equal(naive(x), model(x))
    assert calls == []
    gates = {"self_attn": torch.zeros(H)}
    silent = copy.deepcopy(model)
    silent.self_attn.out_proj.weight.data.zero_()
    with gated(model, {}, gates):
        assert torch.allclose(model(x), silent(x), atol=1e-6)


def test_the_fast_path_passes_by_a_subclass() -> None:
    calls: list[int] = []

    class Counting(nn.MultiheadAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return super().forward(*args, **kwargs)

    model, x = nn.TransformerEncoderLayer(E, H, 32, batch_first=True).eval(), data(2, 7, E)
    naive = copy.deepcopy(model)
    naive.self_attn = Counting(E, H, batch_first=True).eval()
    with torch.no_grad():
        naive(x)
    assert calls == []
    resized = apply(model, HeadPlan.of({"self_attn": HeadCount(3, 3, D)}), (x,)).eval()
    resized.self_attn.register_forward_hook(lambda *_: calls.append(1))
    assert isinstance(resized.self_attn, HeadedAttention)
    with torch.no_grad():
        resized(x)
    assert calls == [1]


# transformers


def test_one_attribute_of_bert_alone_does_nothing(transformers: ModuleType) -> None:
    model, inputs = bert(transformers), {"input_ids": IDS}
    naive = copy.deepcopy(model)
    for layer in naive.encoder.layer:
        layer.attention.self.num_attention_heads = 2
    assert torch.equal(hidden(naive), hidden(model))
    assert heads_of(naive, inputs) == {HeadCount(4, 4, 6)}
    right = apply(model, to_count(model, inputs, 2), inputs)
    assert torch.equal(hidden(right), hidden(bert(transformers, 2)))


def test_an_edit_that_took_no_effect_is_undone(transformers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard itself: an adapter that sets that attribute alone."""

    def naive(self: Handwritten, model: nn.Module, site: Any, wanted: HeadCount) -> None:
        model.get_submodule(site.path).num_attention_heads = wanted.num_heads

    model, inputs = bert(transformers), {"input_ids": IDS}
    monkeypatch.setattr(Handwritten, "rehead", naive)
    with pytest.raises(SurgeryError, match="the plan asks for 2x12, but after the change it computes 4x6"):
        apply(model, to_count(model, inputs, 2), inputs)


def test_a_forgotten_scale_is_a_small_silent_error(transformers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = bert(transformers), {"input_ids": IDS}

    def naive(self: Handwritten, model: nn.Module, site: Any, wanted: HeadCount) -> None:
        block = model.get_submodule(site.path)
        block.num_attention_heads, block.attention_head_size = wanted.num_heads, wanted.head_dim

    edited = copy.deepcopy(model)
    for site in find_sites(model, inputs):
        naive(Handwritten(), edited, site, HeadCount(2, 2, 12))
    assert heads_of(edited, inputs) == {HeadCount(2, 2, 12)}
    assert not torch.allclose(hidden(edited), hidden(bert(transformers, 2)), atol=1e-3)
    monkeypatch.setattr(Handwritten, "rehead", naive)
    with pytest.raises(
        SurgeryError, match=r"its scores are still scaled by 0\.4082, where 12 features per head need 0\.2887"
    ):
        apply(model, to_count(model, inputs, 2), inputs)


def test_a_count_that_does_not_divide_becomes_another(transformers: ModuleType) -> None:
    model, inputs = bert(transformers), {"input_ids": IDS}
    naive = copy.deepcopy(model)
    for layer in naive.encoder.layer:
        block = layer.attention.self
        block.num_attention_heads, block.attention_head_size = 5, E // 5
    assert heads_of(naive, inputs) == {HeadCount(6, 6, 4)}
    plan = HeadPlan.of({site.path: HeadCount(5, 5, 4) for site in find_sites(model, inputs)})
    with pytest.raises(
        SurgeryError, match="5x4 makes a width of 20, but hold: width keeps 24; legal numbers of heads: "
    ):
        apply_plan(model, plan, inputs, hold="width")


def test_a_scale_that_does_not_follow_head_dim_stays(transformers: ModuleType) -> None:
    """GPT-2 divides by the layer's number too, Gemma by a number of the configuration: 1/sqrt(head_dim) is wrong."""

    def gpt2(heads: int) -> nn.Module:
        torch.manual_seed(0)
        sizes = {"vocab_size": 50, "n_embd": E, "n_layer": 3, "n_head": heads, "n_positions": 16}
        special = {"bos_token_id": 1, "eos_token_id": 2}
        config = transformers.GPT2Config(
            **sizes, **special, scale_attn_by_inverse_layer_idx=True, initializer_range=0.5
        )
        return transformers.GPT2Model(config).eval()

    def gemma(heads: int) -> nn.Module:
        torch.manual_seed(0)
        sizes = SIZES | {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": E // heads}
        config = transformers.Gemma2Config(**sizes, query_pre_attn_scalar=3, attn_implementation="eager")
        return transformers.Gemma2Model(config).eval()

    inputs = {"input_ids": IDS, "use_cache": False}
    for build in (gpt2, gemma):
        model, truth = build(4), build(2)
        right = apply(model, to_count(model, inputs, 2), inputs)
        assert torch.equal(hidden(right, inputs), hidden(truth, inputs))
        naive = copy.deepcopy(right)
        for module in naive.modules():
            if "scaling" in vars(module):
                module.scaling = 12**-0.5
        assert not torch.allclose(hidden(naive, inputs), hidden(truth, inputs), atol=1e-3)


def test_a_head_of_one_feature_is_rotated_by_a_table_of_six(transformers: ModuleType) -> None:
    """Cosines broadcast over a single feature, so that the stale table of rotations raises nothing."""
    model, inputs = llama(transformers), {"input_ids": IDS, "use_cache": False}
    naive = copy.deepcopy(model)
    for layer in naive.layers:
        layer.self_attn.head_dim, layer.self_attn.scaling = 1, 1.0
    assert hidden(naive, inputs).isfinite().all()
    assert {count.head_dim for count in heads_of(naive, inputs)} == {6}
    plan = HeadPlan.of({site.path: HeadCount(24, 24, 1) for site in find_sites(model, inputs)})
    with pytest.raises(SurgeryError):
        apply(model, plan, inputs)


def test_biases_for_one_head_become_those_of_every_head(transformers: ModuleType) -> None:
    """A table for several heads would raise; that of a single one broadcasts."""
    t5 = {"vocab_size": 50, "d_model": E, "d_kv": E, "num_heads": 1, "d_ff": 40, "num_layers": 2}
    bloom = {"vocab_size": 50, "hidden_size": E, "n_layer": 2, "n_head": 1}
    models = (
        (transformers.T5EncoderModel(transformers.T5Config(**t5)), {"n_heads": 4, "key_value_proj_dim": 6}),
        (transformers.BloomModel(transformers.BloomConfig(**bloom)), {"num_heads": 4, "head_dim": 6}),
    )
    inputs = {"input_ids": IDS[:1]}
    for model, counts in models:
        naive = copy.deepcopy(model.eval())
        for module in naive.modules():
            vars(module).update({name: value for name, value in counts.items() if name in vars(module)})
        assert heads_of(naive, inputs) == {HeadCount(4, 4, 6)}
        with pytest.raises(SurgeryError, match=r"(is a table of|the model makes ALiBi) biases for 1 heads"):
            apply(model, to_count(model, inputs, 4), inputs)


def test_pruned_heads_in_a_configuration_are_not_honoured(transformers: ModuleType) -> None:
    model, inputs = bert(transformers), {"input_ids": IDS}
    config = copy.deepcopy(model.config)
    config.pruned_heads = {0: [0, 1], 1: [0, 1]}
    naive = transformers.BertModel(config).eval()
    assert heads_of(naive, inputs) == {HeadCount(4, 4, 6)}
    pruned = prune(model, {site.path: [2, 3] for site in find_sites(model, inputs)}, inputs)
    assert heads_of(pruned, inputs) == {HeadCount(2, 2, 6)}


def test_attentions_under_sdpa_are_empty(transformers: ModuleType) -> None:
    model, inputs = bert(transformers), {"input_ids": IDS}
    with torch.no_grad():
        assert not model(**inputs, output_attentions=True).attentions
    eager = bert(transformers, kernel="eager")
    with torch.no_grad():
        truth = eager(**inputs, output_attentions=True).attentions
    seen = captured(model, inputs)
    assert len(seen) == 2
    for (one,), maps in zip(seen.values(), truth, strict=True):
        torch.testing.assert_close(one.maps, maps, rtol=0, atol=1e-6)


def test_a_norm_over_all_heads_makes_pruning_another_model() -> None:
    """OLMo2's way: sliced with its norm it runs, but each head's queries depended on all heads."""

    class Normed(Block):
        def __init__(self) -> None:
            super().__init__()
            self.q_norm = nn.RMSNorm(E)

        def forward(self, x: Tensor) -> Tensor:
            queries = self.q_norm(self.q(x))
            parts = (queries, self.k(x), self.v(x))
            q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    model, x = Normed().eval(), data(2, 7, E)
    naive, silent = copy.deepcopy(model), copy.deepcopy(model)
    for layer in (naive.q, naive.k, naive.v):
        layer.weight, layer.bias = nn.Parameter(layer.weight[D:]), nn.Parameter(layer.bias[D:])
    naive.q_norm = nn.RMSNorm(E - D)
    naive.out.weight, naive.num_heads = nn.Parameter(naive.out.weight[:, D:]), H - 1
    silent.out.weight.data[:, :D] = 0
    assert (naive(x) - silent(x)).abs().max() > 1e-3
    with pytest.raises(
        SurgeryError, match=r"the queries of its heads share features of q\.weight: a norm over all heads"
    ):
        prune(model, {"": [1, 2, 3]}, (x,))


# timm's ways, written by hand


class TwoPaths(Block):
    """The fused path ignores ``self.scale``, the other reads it."""

    fused_attn = True

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        if self.fused_attn:
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return ((q * self.scale @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2)


def test_a_stale_scale_on_the_path_that_was_not_watched() -> None:
    model, x = TwoPaths().eval(), data(2, 7, E)
    truth = TwoPaths(2).eval()
    truth.load_state_dict(model.state_dict())
    naive = copy.deepcopy(model)
    naive.num_heads, naive.head_dim = 2, 12
    assert torch.allclose(naive(x), truth(x), atol=1e-6)
    right = apply(model, to_count(model, (x,), 2), (x,))
    for one in (naive, truth, right):
        one.fused_attn = False
    assert (naive(x) - truth(x)).abs().max() > 1e-4
    assert torch.equal(right(x), truth(x))


@pytest.mark.parametrize("gate", [False, True])
def test_norms_and_gates_behind_the_heads_make_pruning_another_model(gate: bool) -> None:
    """Without the norm's statistics, or the gate's rows, of the heads that went."""

    class Behind(Block):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.norm = nn.Linear(E, E), nn.LayerNorm(E)

        def forward(self, x: Tensor) -> Tensor:
            y = self.attend(x)
            return self.out(y * self.gate(x).sigmoid() if gate else self.norm(y))

    model, x = Behind().eval(), data(2, 7, E)
    naive, silent = copy.deepcopy(model), copy.deepcopy(model)
    for layer in (naive.q, naive.k, naive.v):
        layer.weight, layer.bias = nn.Parameter(layer.weight[D:]), nn.Parameter(layer.bias[D:])
    naive.gate.weight, naive.gate.bias = nn.Parameter(naive.gate.weight[:-D]), nn.Parameter(naive.gate.bias[:-D])
    naive.norm = nn.LayerNorm(E - D)
    naive.out.weight, naive.num_heads = nn.Parameter(naive.out.weight[:, D:]), H - 1
    silent.out.weight.data[:, :D] = 0
    assert (naive(x) - silent(x)).abs().max() > 1e-3
    with pytest.raises(SurgeryError, match=r"its heads are gated, normalised or mixed before out\.weight reads them"):
        prune(model, {"": [1, 2, 3]}, (x,))


# What is watched


class Talking(Block):
    """Maps from heads to heads around the softmax, by a convolution or by a linear map."""

    def __init__(self, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        self.before, self.after = ((nn.Linear(H, H) if linear else nn.Conv2d(H, H, 1)) for _ in range(2))

    def mixed(self, layer: nn.Module, maps: Tensor) -> Tensor:
        return layer(maps.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) if self.linear else layer(maps)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (H, D)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        weights = self.mixed(self.after, self.mixed(self.before, q @ k.transpose(-2, -1)).softmax(-1))
        return (weights @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("linear", [False, True])
def test_talking_heads_are_not_passed_over(linear: bool) -> None:
    """Beside an ordinary block they would simply be missing from the sites."""
    model, x = nn.Sequential(Block(), Talking(linear)).eval(), data(2, 7, E)
    with pytest.warns(UserWarning, match="^1 weights values by a softmax that is not one of query-key scores"):
        sites = find_sites(model, (x,))
    assert [site.path for site in sites] == ["0"]


# Weights that others hold


def test_a_shared_parameter_is_untied_in_silence() -> None:
    model, x = nn.Sequential(Block(), Block()).eval(), data(2, 7, E)
    model[1].q.weight = model[0].q.weight
    naive = copy.deepcopy(model)
    naive[0].q.weight = nn.Parameter(naive[0].q.weight[:].clone())
    assert torch.equal(naive(x), model(x))
    assert naive[0].q.weight is not naive[1].q.weight
    with pytest.raises(SurgeryError, match=r"^0: q\.weight is also 1\.q\.weight|0\.q\.weight is also 1\.q\.weight"):
        prune(model, {"0": [1, 2, 3]}, (x,))


def test_an_optimizer_made_before_goes_on_with_the_old_weights() -> None:
    model, x = nn.Sequential(Block()), data(2, 7, E)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    naive = copy.deepcopy(model)
    naive_optimizer = torch.optim.SGD(naive.parameters(), lr=1.0)
    naive[0].out.weight = nn.Parameter(naive[0].out.weight.clone())
    before = naive[0].out.weight.clone()
    naive(x).square().mean().backward()
    naive_optimizer.step()
    assert torch.equal(naive[0].out.weight, before)
    state = copy.deepcopy(model.state_dict())
    fewer, shared = (HeadPlan.of({"0": count}) for count in (HeadCount(H - 1, H - 1, D), HeadCount(H, 2, D)))
    for edit in (
        lambda: prune(model, {"0": [1, 2, 3]}, (x,), copy=False),
        lambda: merge_kv(model, shared, (x,), copy=False),
        lambda: apply(model, fewer, (x,), copy=False),
    ):
        with pytest.raises(SurgeryError) as caught:
            edit()
        assert str(caught.value) == "SGD holds weights that would be replaced: make it anew afterwards, or take a copy"
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert prune(model, {"0": [1, 2, 3]}, (x,)) is not model
    del optimizer
    assert prune(model, {"0": [1, 2, 3]}, (x,), copy=False) is model


@pytest.mark.parametrize("edit", [apply, partial(apply_plan, hold="width")])
def test_an_optimizer_made_before_misses_a_learned_scale_of_another_head_dim(edit: Callable[..., nn.Module]) -> None:
    """No projection changes its shape, but the scale is a new parameter."""

    class Learned(Block):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(D**-0.5))

        def attend(self, x: Tensor) -> Tensor:
            q, k, v = (
                layer(x).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
                for layer in (self.q, self.k, self.v)
            )
            return ((q * self.scale @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2)

    x, plan = data(2, 7, E), HeadPlan.of({"0": HeadCount(2, 2, 12)})
    for block, refused in ((Learned(), True), (Block(), False)):
        model = nn.Sequential(block)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        if refused:
            with pytest.raises(SurgeryError, match=r"^SGD holds weights that would be replaced"):
                edit(model, plan, (x,), copy=False)
        else:
            edit(model, plan, (x,), copy=False)
        assert {id(parameter) for parameter in model.parameters()} == held
        assert heads_of(model, (x,)) == {HeadCount(H, H, D) if refused else HeadCount(2, 2, 12)}


def test_an_optimizer_made_before_misses_rows_that_moved(transformers: ModuleType) -> None:
    torch.manual_seed(0)
    model = transformers.GPTNeoXModel(transformers.GPTNeoXConfig(**SIZES)).eval()
    inputs = {"input_ids": IDS, "use_cache": False}
    plan, before = to_count(model, inputs, 2), hidden(model, inputs)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    with pytest.raises(SurgeryError, match=r"^SGD holds weights that would be replaced"):
        apply(model, plan, inputs, copy=False)
    assert {id(parameter) for parameter in model.parameters()} == held
    assert torch.equal(hidden(model, inputs), before)


def test_offloaded_weights_are_placeholders() -> None:
    """Slicing what lies on the meta device cuts a placeholder, and the true weights come back whole."""
    model, x = Block().to("meta"), data(2, 7, E).to("meta")
    naive = model.q.weight[D:]
    assert naive.shape == (E - D, E)
    with pytest.raises(
        SurgeryError, match=r"is on the meta device \(offloaded, or not loaded\), one of 8 such weights"
    ):
        prune(model, {"": [1, 2, 3]}, (x,))


def test_one_map_for_all_heads_is_nobodys() -> None:
    """A convolution over all queries: the rows of one head are no head."""

    class Mixed(Block):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(E, E)

        def attend(self, x: Tensor) -> Tensor:
            parts = (self.mix(self.q(x)).tanh() @ torch.ones(E, E) + self.q(x), self.k(x), self.v(x))
            q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    model, x = Mixed().eval(), data(2, 7, E)
    assert "" not in wirings(model, (x,))
    with pytest.raises(SurgeryError, match="the queries of its heads share features"):
        prune(model, {"": [1, 2, 3]}, (x,))
