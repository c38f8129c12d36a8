"""Which heads stay: the best ones, nested, and the same every time."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors
from headtune.heads.plan import HeadPlan
from headtune.heads.pruned import pruned_count
from headtune.heads.ranking import HeadRanking
from headtune.heads.site import AttentionSite


def site(path: str, num_heads: int, num_kv_heads: int) -> AttentionSite:
    return AttentionSite(
        path=path, role="self", embed_dim=64, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=8
    )


PLAIN, GROUPED = site("a", 4, 4), site("g", 8, 4)
RANKING = HeadRanking(
    scores={"a": (0.1, 0.4, 0.2, 0.3), "g": (5.0, 0.0, 3.0, 4.0, 1.0, 1.5, 2.0, 6.0)}, criterion="gradient"
)


def kept(heads: int, kv_heads: int | None = None, sites: tuple[AttentionSite, ...] = (PLAIN,)) -> tuple[int, ...]:
    (one,) = sites
    count = HeadCount(heads, heads if kv_heads is None else kv_heads, 8)
    return RANKING.mask(HeadPlan.of({one.path: count}), sites)[one.path]


def test_the_best_heads_stay_in_their_order() -> None:
    assert [kept(heads) for heads in (1, 2, 3, 4)] == [(1,), (1, 3), (1, 2, 3), (0, 1, 2, 3)]


def test_groups_go_by_their_sum_and_heads_by_their_own_score() -> None:
    # The groups score 5, 7, 2.5 and 8.
    assert kept(2, 1, (GROUPED,)) == (6, 7)
    assert kept(4, 2, (GROUPED,)) == (2, 3, 6, 7)
    assert kept(4, 4, (GROUPED,)) == (0, 3, 5, 7)
    assert kept(2, 2, (GROUPED,)) == (3, 7)


def test_where_heads_are_merged_those_stay_that_become_one() -> None:
    assert kept(2, 1) == (1, 3)
    plan = HeadPlan.of({"a": HeadCount(2, 1, 8), "g": HeadCount(4, 1, 8)})
    assert RANKING.mask(plan, (PLAIN, GROUPED)).to_json() == {"a": [1, 3], "g": [2, 3, 6, 7]}
    assert RANKING.pruned(plan, (PLAIN, GROUPED)).to_json() == {"a": [2, 2, 8], "g": [4, 2, 8]}


def test_of_equal_heads_the_first_stays() -> None:
    equal = HeadRanking(scores={"a": (1.0, 2.0, 2.0, 2.0)}, criterion="norm")
    assert equal.mask(HeadPlan.of({"a": HeadCount(2, 2, 8)}), (PLAIN,))["a"] == (1, 2)


SCORES = st.lists(st.floats(0, 1), min_size=8, max_size=8)
COUNTS = [
    count
    for heads in range(1, 9)
    for kv_heads in divisors(heads)
    if (count := HeadCount(heads, kv_heads, 8)) == pruned_count(GROUPED, count)
]


@given(SCORES, st.sampled_from(COUNTS), st.sampled_from(COUNTS))
def test_fewer_heads_are_among_more(scores: list[float], one: HeadCount, other: HeadCount) -> None:
    ranking = HeadRanking(scores={"g": tuple(scores)}, criterion="norm")
    fewer, more = (set(ranking.mask(HeadPlan.of({"g": count}), (GROUPED,))["g"]) for count in (one, other))
    assert (len(fewer), len({head // 2 for head in fewer})) == one[:2]
    each = [count.num_heads // count.num_kv_heads for count in (one, other)]
    if one.num_kv_heads <= other.num_kv_heads and each[0] <= each[1]:
        assert fewer <= more


def test_it_goes_to_json_and_pickles() -> None:
    assert HeadRanking.from_json(json.loads(json.dumps(RANKING.to_json()))) == RANKING
    assert pickle.loads(pickle.dumps(RANKING)) == RANKING


def test_everything_that_cannot_be_is_named() -> None:
    plan = HeadPlan.of({"a": HeadCount(2, 2, 4), "g": HeadCount(3, 3, 8), "x": HeadCount(1, 1, 8)})
    with pytest.raises(PlanError) as caught:
        RANKING.mask(plan, (PLAIN, GROUPED, site("x", 2, 2)))
    assert caught.value.problems == (
        "a: trained heads, 4x8 at present, cannot become 2x4: their head_dim stays 8",
        "x: 0 scores for 2 heads",
    )
    with pytest.raises(PlanError) as caught:
        RANKING.mask(HeadPlan.of({"a": HeadCount(5, 5, 8)}), (PLAIN,))
    assert str(caught.value) == "a: 5 heads are more than the present 4; legal: 1, 2, 3, 4"
