"""What trained heads can become, against every mask and every merge that there is."""

from itertools import combinations

import pytest

from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors
from headtune.heads.mask import HeadMask
from headtune.heads.pruned import pruned_count, pruning_problem
from headtune.heads.site import AttentionSite


def site(num_heads: int, num_kv_heads: int) -> AttentionSite:
    return AttentionSite(
        path="a", role="self", embed_dim=64, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=8
    )


def masked_counts(one: AttentionSite) -> set[HeadCount]:
    """The counts that any mask leaves."""
    found = set()
    for size in range(1, one.num_heads + 1):
        for kept in combinations(range(one.num_heads), size):
            try:
                found.add(HeadMask.of({"a": kept}).plan([one])["a"])
            except PlanError:
                continue
    return found


def merged_counts(count: HeadCount) -> set[HeadCount]:
    """What joining neighbours in equal groups makes of some counts."""
    return {count._replace(num_kv_heads=kv_heads) for kv_heads in divisors(count.num_kv_heads)}


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(6, 6), (6, 3), (8, 4), (8, 2), (6, 1), (1, 1)])
def test_exactly_what_some_mask_and_some_merge_make_is_legal(num_heads: int, num_kv_heads: int) -> None:
    one = site(num_heads, num_kv_heads)
    masked = masked_counts(one)
    reachable = {merged for count in masked for merged in merged_counts(count)}
    for heads in range(1, num_heads + 2):
        for kv_heads in divisors(heads):
            wanted = HeadCount(heads, kv_heads, 8)
            between = pruned_count(one, wanted)
            assert (between is not None) == (wanted in reachable), wanted
            assert (pruning_problem(one, wanted) is None) == (between is not None)
            if between is not None:
                assert between in masked
                assert wanted in merged_counts(between)
                ways = [count for count in masked if wanted in merged_counts(count)]
                assert between.num_kv_heads == min(count.num_kv_heads for count in ways)


def test_nothing_is_merged_where_pruning_is_enough() -> None:
    assert pruned_count(site(8, 4), HeadCount(4, 2, 8)) == HeadCount(4, 2, 8)
    assert pruned_count(site(8, 4), HeadCount(4, 4, 8)) == HeadCount(4, 4, 8)
    assert pruned_count(site(8, 4), HeadCount(4, 1, 8)) == HeadCount(4, 2, 8)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (
            HeadCount(4, 2, 16),
            "a: trained heads, 8/4x8 at present, cannot become 4/2x16: their head_dim stays 8",
        ),
        (
            HeadCount(6, 2, 8),
            "a: trained heads, 8/4x8 at present, cannot become 6/2x8: each of at most 4 key/value heads keeps equally "
            "many of its 2 query heads, and then key/value heads are merged in equal groups",
        ),
    ],
)
def test_what_cannot_be_is_told(wanted: HeadCount, problem: str) -> None:
    assert pruning_problem(site(8, 4), wanted) == problem
