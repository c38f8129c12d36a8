import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.surgery import find_sites, possibilities

HAND_WRITTEN = [
    "nano fused sdpa",
    "nano fused manual",
    "nano separate sdpa",
    "nano separate manual",
    "config",
    "annotated",
    "lucid",
    "lucid to_kv",
    "merged",
    "einsum",
    "child",
    "tensor scale",
    "vision",
    "nano cross",
    "grouped repeat",
    "grouped sdpa",
    "grouped fused",
]


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_the_usual_hand_written_shapes_allow_both(zoo: SimpleNamespace, name: str) -> None:
    model, inputs = zoo.build(name, 4, 2 if "grouped" in name else 4, 6).train(), zoo.inputs(name)
    state = copy.deepcopy(model.state_dict())
    before = torch.get_rng_state()
    sites = find_sites(model, inputs)
    found = possibilities(model, inputs)
    assert [one.site for one in found] == list(sites)
    assert {(one.rehead, one.resize, one.prune, one.merge) for one in found} == {(None, None, None, None)}
    assert {one.merge_repeats for one in found} == {"grouped" not in name}
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


def test_torch_transformers_allow_both() -> None:
    model, x = nn.Transformer(24, 4, 1, 1, 32), torch.randn(5, 2, 24)
    assert [(p.rehead, p.resize) for p in possibilities(model, (x, x))] == [(None, None)] * 3


def test_trained_weights_of_torch_transformers_lose_heads_and_key_value_heads() -> None:
    model, x = nn.Transformer(24, 4, 1, 1, 32), torch.randn(5, 2, 24)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    assert [(p.prune, p.merge) for p in possibilities(model, (x, x))] == [(None, None)] * 3
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert isinstance(model.encoder.layers[0].self_attn, nn.MultiheadAttention)


def test_the_last_head_stays_and_is_shared_already() -> None:
    model, x = nn.TransformerEncoderLayer(24, 1, 32, batch_first=True), torch.randn(2, 5, 24)
    (only,) = possibilities(model, (x,))
    assert only.prune == "self_attn: its one head stays"
    assert only.merge == "self_attn: its one key/value head is shared by all already"


def test_a_model_that_is_the_block_itself_loses_heads_too() -> None:
    model, x = nn.MultiheadAttention(24, 4, batch_first=True), torch.randn(2, 5, 24)
    (only,) = possibilities(model, (x, x, x))
    assert (only.prune, only.merge) == (None, None)


def test_one_stubborn_block_does_not_speak_for_the_others(zoo: SimpleNamespace) -> None:
    stubborn = Cached()
    blocks = iter([zoo.LucidAttention(4, 6), stubborn])
    first, second = possibilities(zoo.Stack(lambda: next(blocks)), zoo.inputs())
    assert (first.rehead, first.resize) == (None, None)
    assert second.rehead == (
        "layers.1.attn: the plan asks for 3x8, but after the change it computes 4x6; "
        "let forward take its counts from attributes of the module, and from nowhere else"
    )
    assert second.resize.startswith("layers.1.attn with 3x6: forward raises RuntimeError: shape '[2, 7, 4, 6]'")


def test_a_prime_width_in_groups_leaves_no_other_count() -> None:
    x = torch.randn(5, 2, 7)
    (one,) = possibilities(nn.MultiheadAttention(7, 7), (x, x, x))
    assert (one.rehead, one.resize) == (None, None)
    (lone,) = possibilities(nn.MultiheadAttention(1, 1), (x[..., :1],) * 3)
    assert (lone.rehead, lone.resize) == ("the model: no other count divides its width 1", None)


class Cached(nn.Module):
    """Computes with counts that no attribute changes."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.shape = 4, (4, 6)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.view(*x.shape[:2], *self.shape).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Refusing(nn.Module):
    """One self-attention block with one trait that stands in the way."""

    def __init__(self, trait: str) -> None:
        super().__init__()
        self.trait, self.num_heads, self.head_dim = trait, 4, 6
        self.qkv, self.out = nn.Linear(24, 72, bias=False), nn.Linear(24, 24)
        if trait == "no attribute":
            del self.num_heads, self.head_dim
        if trait == "q norm":
            self.q_norm = nn.LayerNorm(6)
        if trait == "rotary table":
            self.register_buffer("cos", torch.randn(16, 6))
        if trait == "partial rotary":
            self.rotary_dim = 4
        if trait == "position bias":
            self.table = nn.Parameter(torch.randn(4, 16, 16))
        if trait == "lora":
            self.lora = nn.Linear(24, 72, bias=False)
        if trait == "weight norm":
            self.qkv = nn.utils.parametrizations.weight_norm(self.qkv)
        if trait == "old weight norm":
            self.qkv = nn.utils.weight_norm(self.qkv)
        if trait == "parameter":
            self.weight = nn.Parameter(torch.randn(24, 72))
        if trait == "no projection out":
            self.out = nn.Identity()
        if trait == "conv":
            self.qkv = nn.Conv1d(24, 72, 1)
        if trait == "latent keys":
            self.qkv, self.down = nn.Linear(24, 72), nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        heads = 4 if self.trait == "no attribute" else self.num_heads
        qkv = x @ self.weight if self.trait == "parameter" else None
        if qkv is None:
            qkv = self.qkv(x.transpose(1, 2)).transpose(1, 2) if self.trait == "conv" else self.qkv(x)
        if self.trait == "lora":
            qkv = qkv + self.lora(x)
        q, k, v = (t.reshape(B, T, heads, -1).transpose(1, 2) for t in qkv.chunk(3, -1))
        if self.trait == "q norm":
            q = self.q_norm(q)
        if self.trait == "rotary table":
            q, k = q * self.cos[:T], k * self.cos[:T]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if self.trait == "position bias":
            scores = scores + self.table[:, :T, :T]
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1))


RAISES = (
    "the model with {}: forward raises RuntimeError: The size of tensor a ({}) must match the size of tensor b ({})"
)
COMPUTED = (
    "the model: its queries come from a weight that is computed in the forward pass; "
    "remove weight_norm, quantisation or the like first"
)
TRAITS = {
    "none": (None, None),
    "no attribute": (
        "the model: Refusing has no attribute that holds its 4 heads or their 6 features; "
        "store them, as in self.num_heads, and let forward read them there",
    )
    * 2,
    "q norm": ("the model: q_norm normalises over the 6 features of a head; hold head_dim instead", None),
    "rotary table": (RAISES.format("3x8", 8, 6), None),
    "partial rotary": (
        "the model: rotary_dim=4 fixes how many of a head's features are rotated; hold head_dim instead",
        None,
    ),
    "position bias": (RAISES.format("3x8", 3, 4), RAISES.format("3x6", 3, 4)),
    "lora": (
        None,
        "the model: its queries come from several projections (lora.weight, qkv.weight); "
        "merge adapters such as LoRA first",
    ),
    "weight norm": (None, COMPUTED),
    "old weight norm": (None, COMPUTED),
    "parameter": (None, "the model: weight belongs to Refusing, and only nn.Linear and Conv1D can change their size"),
    "no projection out": (
        None,
        "the model: its output is read by no projection that headtune could see; use nn.Linear",
    ),
    "conv": (None, "the model: qkv.weight belongs to Conv1d, and only nn.Linear and Conv1D can change their size"),
}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.parametrize("trait", TRAITS)
def test_what_stands_in_the_way_is_named(zoo: SimpleNamespace, trait: str) -> None:
    (found,) = possibilities(Refusing(trait), zoo.inputs())
    for reason, expected in zip((found.rehead, found.resize), TRAITS[trait], strict=True):
        assert reason == expected or (expected and reason and reason.startswith(expected)), reason
