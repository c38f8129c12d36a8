from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.heads.count import HeadCount
from headtune.surgery.adapters.layout import Layout, kv_heads_by_rows, rows, why_not
from headtune.surgery.original import Original
from headtune.surgery.probe import Projections


def projections(q: str, k: str, v: str, out: str = "out.weight") -> Projections:
    return Projections(q=frozenset({q}), k=frozenset({k}), v=frozenset({v}), out=frozenset({out}))


def test_the_layout_says_which_rows_each_weight_makes() -> None:
    assert Layout.of(projections("a", "b", "c", "o")) == Layout(parts={"a": "q", "b": "k", "c": "v"}, out="o")
    assert Layout.of(projections("a", "b", "b", "o")) == Layout(parts={"a": "q", "b": "kv"}, out="o")
    assert Layout.of(projections("a", "a", "c", "o")) == Layout(parts={"a": "qk", "c": "v"}, out="o")
    fused = Layout.of(projections("a", "a", "a", "o"))
    assert fused.parts == {"a": "qkv"}
    assert fused.weights == ("a", "o")


@pytest.mark.parametrize(("part", "expected"), [("q", 48), ("k", 12), ("kv", 24), ("qk", 60), ("qkv", 72)])
def test_rows_follow_from_the_counts(part: str, expected: int) -> None:
    assert rows(part, HeadCount(8, 2, 6)) == expected


@pytest.mark.parametrize("name", ["grouped repeat", "grouped sdpa", "grouped fused"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_kv_heads_are_read_off_the_rows_however_they_are_repeated(
    zoo: SimpleNamespace, name: str, kv_heads: int
) -> None:
    model = zoo.build(name, 4, kv_heads, 5)
    for block in Original(model, zoo.inputs()).survey.blocks.values():
        assert kv_heads_by_rows(model, block.call) == kv_heads


def test_rows_tell_even_where_all_keys_are_equal(zoo: SimpleNamespace) -> None:
    """A constant initialisation makes every key head alike: by its values it would be one head."""
    model = zoo.build("tensor scale")
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    block = Original(model, zoo.inputs()).survey.blocks["layers.0.attn"]
    assert block.call.num_kv_heads == 1
    assert block.site.num_kv_heads == 4


class Odd(nn.Module):
    """Self-attention whose projections break one expectation."""

    def __init__(self, trait: str) -> None:
        super().__init__()
        self.trait, self.num_heads = trait, 4
        self.qkv, self.out = nn.Linear(24, 72 if trait != "spare rows" else 80), nn.Linear(24, 24)
        if trait == "wide out":
            self.out = nn.Linear(48, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)[..., :72].chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.num_heads, 6)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(torch.cat([y, y], -1) if self.trait == "wide out" else y)


REASONS = {
    "spare rows": "qkv.weight has 80 rows, where 4x6 needs 72; headtune does not know what they mean",
    "wide out": "its output is read by no projection that headtune could see; use nn.Linear",
}


@pytest.mark.parametrize("trait", ["spare rows", "wide out"])
def test_projections_of_unexpected_sizes_are_refused(zoo: SimpleNamespace, trait: str) -> None:
    model = Odd(trait)
    block = Original(model, zoo.inputs()).survey.blocks[""]
    assert why_not(model, block.site, block.call.projections) == REASONS[trait]


def test_weights_that_another_module_holds_too_are_refused(zoo: SimpleNamespace) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn, self.head = zoo.LucidAttention(4, 6), nn.Linear(24, 72, bias=False)
            self.head.weight = self.attn.to_qkv.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.attn(x))

    model = Tied()
    block = Original(model, zoo.inputs()).survey.blocks["attn"]
    assert why_not(model, block.site, block.call.projections) == (
        "attn.to_qkv.weight is also head.weight: untie them first, or change neither"
    )


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (
            Projections(k=frozenset({"k"}), v=frozenset({"v"}), out=frozenset({"o"})),
            "its queries come from no projection that headtune could see; use nn.Linear",
        ),
        (
            Projections(q=frozenset({"qkv.weight"}), k=frozenset({"a", "b"}), v=frozenset({"v"})),
            "its keys come from several projections (a, b); merge adapters such as LoRA first",
        ),
        (
            Projections(q=frozenset({"qkv.weight"}), k=frozenset({"qkv.weight"}), v=frozenset({""})),
            "its values come from a weight that is computed in the forward pass; "
            "remove weight_norm, quantisation or the like first",
        ),
        (
            Projections(q=frozenset({"q"}), k=frozenset({"k"}), v=frozenset({"v"})),
            "its output is read by no projection that headtune could see; use nn.Linear",
        ),
        (
            projections("scale", "scale", "scale", "scale"),
            "scale belongs to Scaled, and only nn.Linear and Conv1D can change their size",
        ),
    ],
)
def test_projections_that_cannot_be_resized_are_named(seen: Projections, reason: str, zoo: SimpleNamespace) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(24, 24))

    block = Original(zoo.build("lucid"), zoo.inputs()).survey.blocks["layers.0.attn"]
    assert why_not(Scaled(), block.site, seen) == reason


def test_weights_that_come_when_they_are_used_are_told_from_computed_ones(zoo: SimpleNamespace) -> None:
    model = zoo.build("merged")
    site = Original(model, zoo.inputs()).sites[0]
    computed = projections("", "", "", "")
    assert "computed in the forward pass" in str(why_not(model, site, computed))
    assert why_not(model.to("meta"), site, computed) == (
        "its weights are offloaded (on the meta device but while they are used); load the whole model first"
    )
