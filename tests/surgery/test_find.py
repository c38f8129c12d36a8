import copy
import pickle
import random
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention
from headtune.surgery import find_sites

ROLES = {
    "nano fused sdpa": "causal",
    "nano fused manual": "causal",
    "nano separate sdpa": "causal",
    "nano separate manual": "causal",
    "config": "self",
    "lucid": "self",
    "lucid to_kv": "self",
    "merged": "self",
    "einsum": "self",
    "tensor scale": "self",
    "vision": "self",
    "grouped fused": "causal",
    "grouped repeat": "causal",
    "grouped sdpa": "causal",
}


def site(path: str, role: str, heads: int, kv_heads: int, head_dim: int, embed_dim: int = 24) -> AttentionSite:
    return AttentionSite(
        path=path, role=role, embed_dim=embed_dim, num_heads=heads, num_kv_heads=kv_heads, head_dim=head_dim
    )


@pytest.mark.parametrize("heads", [1, 3, 4, 24])
@pytest.mark.parametrize("name", ROLES)
def test_hand_written_blocks_are_seen_as_they_compute(zoo: SimpleNamespace, name: str, heads: int) -> None:
    head_dim = 24 // heads
    kv_heads = 2 if name.startswith("grouped") and heads == 4 else heads
    model = zoo.build(name, heads, kv_heads, head_dim)
    expected = tuple(site(f"layers.{i}.attn", ROLES[name], heads, kv_heads, head_dim) for i in range(2))
    assert find_sites(model, zoo.inputs(name)) == expected


@pytest.mark.parametrize("name", ["lucid", "annotated", "merged", "einsum", "tensor scale", "config"])
@pytest.mark.parametrize(("heads", "head_dim"), [(2, 5), (3, 16), (7, 1)])
def test_widths_other_than_the_embedding_are_seen(zoo: SimpleNamespace, name: str, heads: int, head_dim: int) -> None:
    sites = find_sites(zoo.build(name, heads, None, head_dim), zoo.inputs(name))
    assert {(s.num_heads, s.num_kv_heads, s.head_dim, s.embed_dim) for s in sites} == {(heads, heads, head_dim, 24)}


def test_the_annotated_decoder_has_a_causal_and_a_cross_site(zoo: SimpleNamespace) -> None:
    assert find_sites(zoo.build("annotated"), zoo.inputs("annotated")) == (
        site("self_attn", "causal", 4, 4, 6),
        site("src_attn", "cross", 4, 4, 6),
    )


def test_cross_attention_alone_is_a_cross_site(zoo: SimpleNamespace) -> None:
    assert find_sites(zoo.build("nano cross"), zoo.inputs("nano cross")) == (site("", "cross", 4, 4, 6),)


def test_a_product_in_a_child_module_belongs_to_the_block_that_projects(zoo: SimpleNamespace) -> None:
    assert find_sites(zoo.build("child"), zoo.inputs()) == (site("attn", "self", 4, 4, 6),)


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_full_transformer_in_model_order(batch_first: bool) -> None:
    model = nn.Transformer(24, 4, 2, 2, 32, batch_first=batch_first)
    shape = (2, 7) if batch_first else (7, 2)
    inputs = {
        "src": torch.randn(*shape, 24),
        "tgt": torch.randn(*shape, 24),
        "tgt_mask": model.generate_square_subsequent_mask(7),
    }
    assert find_sites(model, inputs) == (
        site("encoder.layers.0.self_attn", "self", 4, 4, 6),
        site("encoder.layers.1.self_attn", "self", 4, 4, 6),
        site("decoder.layers.0.self_attn", "causal", 4, 4, 6),
        site("decoder.layers.0.multihead_attn", "cross", 4, 4, 6),
        site("decoder.layers.1.self_attn", "causal", 4, 4, 6),
        site("decoder.layers.1.multihead_attn", "cross", 4, 4, 6),
    )


def test_a_transformer_called_with_one_tensor_twice_still_has_cross_sites() -> None:
    x = torch.randn(2, 5, 24)
    roles = [s.role for s in find_sites(nn.Transformer(24, 4, 1, 1, 32, batch_first=True), (x, x))]
    assert roles == ["self", "self", "cross"]


@pytest.mark.parametrize("mask", ["bool", "float", "hint only"])
def test_an_encoder_is_causal_when_its_mask_is(mask: str) -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    triangle = torch.ones(7, 7, dtype=torch.bool).triu(1)
    given = triangle if mask == "bool" else torch.zeros(7, 7).masked_fill(triangle, float("-inf"))
    inputs = {"src": torch.randn(2, 7, 24), "mask": given, "is_causal": mask == "hint only"}
    assert {s.role for s in find_sites(encoder, inputs)} == {"causal"}
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[0, 3:] = True
    assert {s.role for s in find_sites(encoder, {"src": torch.randn(2, 7, 24), "src_key_padding_mask": padding})} == {
        "self"
    }


def test_headed_attention_shows_its_groups_on_both_of_its_paths() -> None:
    module = HeadedAttention(24, 6, head_dim=5, num_kv_heads=2)
    x = torch.randn(7, 2, 24)
    for need_weights in (True, False):
        inputs = {"query": x, "key": x, "value": x, "need_weights": need_weights}
        assert find_sites(module, inputs) == (site("", "self", 6, 2, 5),)


def test_the_meta_device_will_do() -> None:
    model = nn.Transformer(24, 4, 1, 1, 32, batch_first=True, device="meta")
    x = torch.randn(2, 5, 24, device="meta")
    assert [(s.path, s.num_heads, s.head_dim) for s in find_sites(model, (x, x))] == [
        ("encoder.layers.0.self_attn", 4, 6),
        ("decoder.layers.0.self_attn", 4, 6),
        ("decoder.layers.0.multihead_attn", 4, 6),
    ]


def test_a_compiled_model_is_watched_as_the_code_it_was_made_from(zoo: SimpleNamespace) -> None:
    model = torch.compile(zoo.build("lucid"))
    assert [s.path for s in find_sites(model, zoo.inputs())] == ["_orig_mod.layers.0.attn", "_orig_mod.layers.1.attn"]


def test_bfloat16_and_checkpointed_models_are_seen(zoo: SimpleNamespace) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = zoo.build("grouped repeat", 4, 2, 6).to(torch.bfloat16)

        def forward(self, x: Tensor) -> Tensor:
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    sites = find_sites(Checkpointed(), (zoo.inputs()[0].to(torch.bfloat16),))
    assert [(s.num_heads, s.num_kv_heads, s.role) for s in sites] == [(4, 2, "causal")] * 2


class Leaky(nn.Module):
    """Draws from every generator, keeps state in attributes, buffers and a dictionary, as it runs."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block, self.drop = block, nn.Dropout(0.5)
        self.cache: dict[str, Tensor] = {}
        self.last: Tensor | None = None
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.last, self.cache["x"] = x, x
        noise = random.random() + float(np.random.rand())
        return self.block(x) + torch.randn_like(x) * noise


def test_watching_leaves_no_trace(zoo: SimpleNamespace) -> None:
    model = Leaky(zoo.build("lucid"))
    model.train()
    model.drop.eval()
    handle = model.block.register_forward_hook(lambda *_: None)
    modes = [m.training for m in model.modules()]
    state = copy.deepcopy(model.state_dict())
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    states = torch.get_rng_state(), random.getstate(), pickle.dumps(np.random.get_state())
    attributes = [set(vars(m)) for m in model.modules()]

    find_sites(model, zoo.inputs())

    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()] == hooks
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), pickle.dumps(np.random.get_state())) == states[1:]
    assert [set(vars(m)) for m in model.modules()] == attributes
    assert model.last is None
    assert model.cache == {}
    assert all(parameter.grad is None for parameter in model.parameters())
    handle.remove()
    assert not model.block._forward_hooks


def test_a_forward_that_raises_leaves_no_trace_either(zoo: SimpleNamespace) -> None:
    model = zoo.build("nano fused sdpa").train()
    wrong, before = torch.randn(2, 5, 23), torch.get_rng_state()
    with pytest.raises(SurgeryError) as caught:
        find_sites(model, (wrong,))
    assert str(caught.value).startswith("the forward pass of Stack raised RuntimeError: Given normalized_shape=[24]")
    assert str(caught.value).endswith(" in layers.0.norm; give inputs that its forward takes, on the model's device")
    assert all(m.training and not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            torch.zeros(2, 5, 24),
            "inputs came as Tensor: write (tensor,) for one positional argument, "
            "or {'name': tensor} for a keyword argument",
        ),
        ([torch.zeros(2, 5, 24)], "inputs came as list: write tuple(inputs) for positional arguments"),
        (
            None,
            "inputs came as NoneType: give the positional arguments of forward as a tuple, "
            "or its keyword arguments as a dict",
        ),
    ],
    ids=["tensor", "list", "none"],
)
def test_inputs_of_another_kind_are_refused(zoo: SimpleNamespace, inputs: object, message: str) -> None:
    with pytest.raises(SurgeryError) as caught:
        find_sites(zoo.build("lucid"), inputs)
    assert str(caught.value) == message


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(SurgeryError) as caught:
        find_sites(nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), (torch.zeros(2, 3, 4),))
    assert str(caught.value) == (
        "no attention was seen in the forward pass of Sequential; headtune recognises nn.MultiheadAttention, "
        "scaled_dot_product_attention and softmax(q·kᵀ)·v, but no kernels called directly (flex_attention, flash-attn)"
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_a_kernel_that_compiles_itself_is_named_as_the_reason() -> None:
    class Flex(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            from torch.nn.attention.flex_attention import flex_attention

            return flex_attention(x, x, x)

    with pytest.raises(SurgeryError) as caught:
        find_sites(Flex(), (torch.randn(1, 2, 16, 8),))
    assert str(caught.value).endswith("; kernels that compile themselves, such as flex_attention, cannot be watched")


class TalkingHeads(nn.Module):
    """Mixes the scores of all heads before the softmax (CaiT): no head's map is a softmax of its own scores."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.mix, self.out = nn.Linear(24, 72), nn.Linear(4, 4), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.view(*x.shape[:2], 4, 6).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = self.mix((q @ k.transpose(-2, -1)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_a_softmax_that_is_no_attention_of_ours_is_reported(zoo: SimpleNamespace) -> None:
    with pytest.raises(SurgeryError) as caught:
        find_sites(TalkingHeads(), zoo.inputs())
    assert "TalkingHeads, only softmax-weighted sums of another kind in the model; headtune" in str(caught.value)
    both = nn.Sequential(zoo.LucidAttention(4, 6), TalkingHeads())
    with pytest.warns(
        UserWarning, match=r"^1 weights values by a softmax that is not one of query-key scores: it is no"
    ):
        sites = find_sites(both, zoo.inputs())
    assert [s.path for s in sites] == ["0"]


def test_softmaxes_that_weight_nothing_are_no_concern(zoo: SimpleNamespace) -> None:
    model = nn.Sequential(zoo.LucidAttention(4, 6), nn.Linear(24, 10), nn.Softmax(-1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(find_sites(model, zoo.inputs())) == 1


class Reused(nn.Module):
    """One block for all layers, as in ALBERT; *counts* sets its heads anew before each use."""

    def __init__(self, block: nn.Module, counts: tuple[int, ...]) -> None:
        super().__init__()
        self.layers, self.counts = nn.ModuleList([block] * len(counts)), counts

    def forward(self, x: Tensor) -> Tensor:
        for layer, heads in zip(self.layers, self.counts, strict=True):
            layer.heads = heads
            x = x + layer(x)
        return x


def test_a_block_used_several_times_is_one_site(zoo: SimpleNamespace) -> None:
    assert find_sites(Reused(zoo.LucidAttention(4, 6), (4, 4, 4)), zoo.inputs()) == (site("layers.0", "self", 4, 4, 6),)


def test_a_block_used_with_several_counts_is_refused(zoo: SimpleNamespace) -> None:
    with pytest.raises(SurgeryError) as caught:
        find_sites(Reused(zoo.LucidAttention(4, 6), (4, 8, 4)), zoo.inputs())
    assert str(caught.value) == ("layers.0 computes attention 3 times, as 4x6 and 8x3: give each a module of its own")


class SingleHeads(nn.Module):
    """Every head a module of its own, on ``(B, T, D)`` tensors."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(24, 6, bias=False) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            weights = self.query(x) @ self.key(x).transpose(-2, -1) * 6**-0.5
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            return F.softmax(weights.masked_fill(future, float("-inf")), dim=-1) @ self.value(x)

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.proj = nn.ModuleList(self.Head() for _ in range(4)), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


def test_heads_that_are_modules_are_sites_of_one_head(zoo: SimpleNamespace) -> None:
    assert find_sites(SingleHeads(), zoo.inputs()) == tuple(site(f"heads.{i}", "causal", 1, 1, 6) for i in range(4))


class Pooled(nn.Module):
    """Keys and values from a shortened copy of the one input (PVT): still self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.proj = nn.Linear(24, 24), nn.Linear(24, 48), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        short = F.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in (self.q(x), *self.kv(short).chunk(2, -1)))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def test_attention_to_a_pooled_copy_of_the_input_is_self_attention(zoo: SimpleNamespace) -> None:
    assert find_sites(Pooled(), zoo.inputs()) == (site("", "self", 4, 4, 6),)
