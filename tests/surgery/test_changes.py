from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.surgery.adapters import FALLBACK, SECOND_FALLBACK, Headed, TorchMHA
from headtune.surgery.changes import Change, changes, second_try
from headtune.surgery.original import Original
from headtune.surgery.probe import Projections


def asked(original: Original, *counts: tuple[int, int, int]) -> tuple[Change, ...]:
    plan = HeadPlan.of({s.path: HeadCount(*c) for s, c in zip(original.sites, counts, strict=True)})
    return changes(original, plan, original.sites)


def test_sites_that_stay_have_no_change(zoo: SimpleNamespace) -> None:
    original = Original(zoo.build("lucid"), zoo.inputs())
    assert asked(original, (4, 4, 6), (4, 4, 6)) == ()
    (change,) = asked(original, (4, 4, 6), (2, 2, 12))
    assert (change.site.path, change.wanted) == ("layers.1.attn", (2, 2, 12))


def test_a_change_resizes_when_a_width_changes(zoo: SimpleNamespace) -> None:
    original = Original(zoo.build("grouped sdpa", 4, 2, 6), zoo.inputs())
    for count, resizes in (
        ((8, 4, 3), False),
        ((2, 1, 12), False),
        ((4, 1, 6), True),
        ((2, 2, 12), True),
        ((2, 1, 6), True),
    ):
        (change,) = asked(original, count, (4, 2, 6))
        assert change.resizes is resizes, count
        assert (change.projections == Projections()) is not resizes, "projections are looked up where they are needed"


def test_the_adapter_follows_the_class(zoo: SimpleNamespace) -> None:
    x = torch.randn(5, 2, 24)
    mha = Original(nn.MultiheadAttention(24, 4), (x, x, x))
    (change,) = asked(mha, (3, 3, 6))
    assert isinstance(change.adapter, TorchMHA)
    new = change.make(mha.model)
    (again,) = asked(Original(new, (x, x, x)), (2, 2, 6))
    assert isinstance(again.adapter, Headed)
    (by_hand, _) = asked(Original(zoo.build("lucid"), zoo.inputs()), (2, 2, 6), (2, 2, 6))
    assert by_hand.adapter is FALLBACK


def test_reasons_name_the_site(zoo: SimpleNamespace) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (4, 6)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    x = zoo.inputs()
    (change,) = asked(Original(Fixed(), x), (2, 2, 12))
    expected = "the model: Fixed has no attribute that holds its 4 heads or their 6 features; store them, as in"
    assert change.why_not(Fixed()).startswith(expected)
    (nested,) = asked(Original(nn.Sequential(Fixed()), x), (2, 2, 6))
    assert nested.why_not(nn.Sequential(Fixed())).startswith("0: Fixed has no attribute that holds")


def test_the_second_way_is_for_resized_hand_written_blocks_like_the_blamed_ones(zoo: SimpleNamespace) -> None:
    nano = zoo.build("nano fused sdpa")
    lucid = zoo.build("lucid")
    model = nn.Sequential(nano, lucid)
    original = Original(model, zoo.inputs())
    made = asked(original, (3, 3, 6), (2, 2, 6), (3, 3, 6), (2, 2, 12))
    other = second_try(model, made, frozenset({"0.layers.1.attn"}))
    assert [change.adapter is SECOND_FALLBACK for change in other] == [True, True, False, False]
    assert [change.wanted for change in other] == [change.wanted for change in made]
    assert second_try(model, other, frozenset({"0.layers.1.attn"})) is None
    last = second_try(model, other, frozenset({"1.layers.0.attn"}))
    assert [change.adapter is SECOND_FALLBACK for change in last] == [True, True, True, False]
    assert second_try(model, made, frozenset()) is None


@pytest.mark.parametrize("hold", ["width", "head_dim"])
def test_changes_compare_as_values(zoo: SimpleNamespace, hold: str) -> None:
    original = Original(zoo.build("lucid"), zoo.inputs())
    counts = ((2, 2, 12) if hold == "width" else (2, 2, 6), (4, 4, 6))
    assert asked(original, *counts) == asked(original, *counts)
