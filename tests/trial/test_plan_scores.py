"""Which plans of a space are scored."""

from random import Random

import pytest

from headtune.heads import AttentionSite, HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective, ParetoFront
from headtune.trial.plan_costs import PlanCosts
from headtune.trial.plan_scores import PlanScore, scored

GOALS = (
    Objective(metric="quality", direction="maximize"),
    Objective(metric="parameters", direction="minimize"),
)


def space_of(sites: int) -> SearchSpace:
    made = [
        AttentionSite(path=f"layers.{at}", role="self", embed_dim=64, num_heads=4, num_kv_heads=4, head_dim=16)
        for at in range(sites)
    ]
    return SearchSpace.of(made, SpaceOptions(hold="width"))


def planted(plan: HeadPlan) -> PlanScore:
    """Good with 8 heads everywhere, cheap with few."""
    heads = [count.num_heads for _, count in plan]
    quality = -float(sum(abs(number.bit_length() - 4) for number in heads))
    return PlanScore(plan=plan, quality={"quality": quality}, costs={"parameters": float(sum(heads))})


def test_a_small_space_is_scored_whole() -> None:
    space = space_of(3)
    assert [one.plan for one in scored(space, planted, GOALS, Random(0))] == list(space)


def test_of_a_large_space_a_sample_gathers_at_the_front() -> None:
    space = space_of(8)
    found = scored(space, planted, GOALS, Random(0), most=300)
    assert len({one.plan for one in found}) == len(found) == 300
    assert {space.smallest, space.largest} <= {one.plan for one in found}
    rng = Random(1)
    by_chance = ParetoFront.of(GOALS, [(planted(plan).values(GOALS), plan) for plan in map(space.sample, [rng] * 300)])
    front = ParetoFront.of(GOALS, [(one.values(GOALS), one.plan) for one in found])
    corner = (-25.0, 100.0)
    assert front.hypervolume(corner) > 1.05 * by_chance.hypervolume(corner)


def test_plans_that_cannot_be_compared_do_not_end_it() -> None:
    space = space_of(8)

    def wild(plan: HeadPlan) -> PlanScore:
        return PlanScore(plan=plan, quality={"quality": float("nan")}, costs={"parameters": 1.0})

    found = scored(space, wild, GOALS, Random(0), most=20)
    assert len(found) == 20
    assert found[0].values(GOALS) == ()


def test_a_score_comes_back_from_json() -> None:
    one = planted(space_of(2).largest)
    assert PlanScore.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    ("hold", "metric", "cost", "words"),
    [
        ("width", "parameters", 1000, "parameters"),
        ("width", "latency_ms", 10, "the number of heads"),
        ("head_dim", "latency_ms@128", 1000, "parameters"),
        ("width", "peak_memory_mb", 10, "the number of heads"),
    ],
)
def test_what_orders_plans_where_no_latency_is_predicted(hold: str, metric: str, cost: float, words: str) -> None:
    space = space_of(2)
    plan = space.plan((1, 3))  # 2 and 8 heads
    known = PlanCosts(hold=hold, latency=None)  # type: ignore[arg-type]
    assert sum(count.num_heads for _, count in plan) == 10
    assert known.of(metric, plan, 1000) == cost
    assert known.words(metric) == words
