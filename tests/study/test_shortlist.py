"""Which plans a shortlist puts first."""

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.study.shortlist import shortlist
from headtune.trial.plan_scores import PlanScore

GOALS = (
    Objective(metric="quality", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


def score(name: int, quality: float, cost: float) -> PlanScore:
    plan = HeadPlan.of({"attn": HeadCount(name, name, 1)})
    return PlanScore(plan=plan, quality={"quality": quality}, costs={"latency_ms": cost})


def names(scores: list[PlanScore], objectives: tuple[Objective, ...] = GOALS) -> list[int]:
    return [plan["attn"].num_heads for plan in shortlist(scores, objectives)]


def test_the_front_comes_first_then_the_front_of_the_rest() -> None:
    assert names([score(1, 0.5, 9.0), score(2, 0.9, 3.0), score(3, 0.8, 4.0), score(4, 0.7, 5.0)]) == [2, 3, 4, 1]


def test_a_front_is_spanned_however_few_are_trained() -> None:
    line = [score(number, number / 10, float(number)) for number in range(1, 10)]
    assert names(line)[:3] == [9, 1, 5]
    assert sorted(names(line)) == list(range(1, 10))


def test_each_objective_counts_by_its_own_range() -> None:
    flat = [score(1, 0.10, 0.0), score(2, 0.11, 500.0), score(3, 0.19, 600.0), score(4, 0.20, 1000.0)]
    assert names(flat)[:2] == [4, 1]
    assert names(flat)[2] == 2  # 0.51 away from the nearest taken; 3 is 0.41


def test_equal_plans_all_stay_and_what_diverged_goes() -> None:
    assert names([score(1, 0.5, 1.0), score(2, 0.5, 1.0), score(3, float("nan"), 0.5)]) == [1, 2]


def test_one_objective_orders_by_it() -> None:
    assert names([score(1, 0.5, 1.0), score(2, 0.7, 9.0), score(3, 0.6, 2.0)], GOALS[:1]) == [2, 3, 1]
