import pytest

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.plan_check import plan_problems

SITES = tuple(
    AttentionSite(path=path, role="self", embed_dim=24, num_heads=4, num_kv_heads=2, head_dim=6) for path in ("a", "b")
)


def problems(hold: str, **counts: tuple[int, int, int]) -> list[str]:
    return list(plan_problems(HeadPlan.of({path: HeadCount(*count) for path, count in counts.items()}), SITES, hold))


@pytest.mark.parametrize("count", [(4, 2, 6), (24, 12, 1), (1, 1, 24), (8, 1, 3)])
def test_plans_that_keep_the_width_fit_both_holds(count: tuple[int, int, int]) -> None:
    assert problems("width", a=count, b=(4, 2, 6)) == problems("head_dim", a=count, b=(4, 2, 6)) == []


@pytest.mark.parametrize("count", [(1, 1, 6), (6, 3, 6), (5, 5, 7)])
def test_other_widths_fit_only_hold_head_dim(count: tuple[int, int, int]) -> None:
    assert problems("head_dim", a=count, b=count) == []
    assert problems("width", a=count, b=(4, 2, 6)) == [
        f"a: {HeadCount(*count)} makes a width of {count[0] * count[2]}, but hold: width keeps 24; "
        "legal numbers of heads: 1, 2, 3, 4, 6, 8, 12, 24"
    ]


def test_missing_and_unknown_blocks_are_named() -> None:
    assert problems("width", a=(4, 2, 6), c=(4, 2, 6), d=(4, 2, 6)) == [
        "c: the model has no such attention block; it has a, b",
        "d: the model has no such attention block; it has a, b",
        "b: the plan says nothing about this block; a plan names every block, at present 4/2x6",
    ]


def test_groups_must_be_whole() -> None:
    assert problems("width", a=(6, 4, 5), b=(4, 3, 6)) == [
        "a: 4 key/value heads do not divide 6 heads; legal: 1, 2, 3, 6",
        "a: 6/4x5 makes a width of 30, but hold: width keeps 24; legal numbers of heads: 1, 2, 3, 4, 6, 8, 12, 24",
        "b: 3 key/value heads do not divide 4 heads; legal: 1, 2, 4",
    ]
