"""Whether a supernet ranks plans as trainings do, and what is said of it."""

from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.study.agreement import agreement, agreement_sentence
from headtune.study.record import Agreement
from headtune.trial import Outcome, TrialRecord
from headtune.trial.plan_scores import PlanScore

GOALS = (
    Objective(metric="parameters", direction="minimize"),
    Objective(metric="quality", direction="maximize"),
)


def plan_of(heads: int) -> HeadPlan:
    return HeadPlan.of({"attn": HeadCount(heads, heads, 1)})


def told_of(scores: list[float], trained: list[float], outcome: Outcome = Outcome.OK) -> Agreement:
    judged = [
        PlanScore(plan=plan_of(at + 1), quality={"quality": value}, costs={"parameters": 1.0})
        for at, value in enumerate(scores)
    ]
    trials = [
        TrialRecord(
            number=at,
            kind="search",
            label="",
            plan=plan_of(at + 1),
            params={},
            repeat=0,
            seed=0,
            outcome=outcome,
            metrics={"quality": value, "parameters": 1.0},
        )
        for at, value in enumerate(trained)
    ]
    return agreement(judged, trials, GOALS)


def test_spearman_is_one_minus_six_times_the_squared_differences_of_ranks() -> None:
    told = told_of([0.1, 0.2, 0.3, 0.4, 0.5], [10.0, 30.0, 20.0, 50.0, 40.0])
    assert told.plans == 5
    assert told.correlation == pytest.approx(1 - 6 * (0 + 1 + 1 + 1 + 1) / (5 * (5**2 - 1)))


def test_only_what_was_trained_to_the_end_counts() -> None:
    assert told_of([0.1, 0.2, 0.3], [1.0, 2.0, 3.0], Outcome.STOPPED).plans == 0
    assert told_of([0.1, 0.2, float("nan"), 0.4], [1.0, 2.0, 3.0, 4.0]).plans == 3
    assert told_of([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0]).plans == 3


@pytest.mark.parametrize(("scores", "trained"), [([0.1, 0.2], [1.0, 2.0]), ([0.1] * 4, [1.0, 2.0, 3.0, 4.0])])
def test_too_few_or_equal_qualities_have_no_correlation(scores: list[float], trained: list[float]) -> None:
    told = told_of(scores, trained)
    assert told.correlation is None
    assert "cannot be said" in agreement_sentence(told)
    assert "may have missed the best plan" in agreement_sentence(told)


def test_what_is_low_is_said_to_be_and_why() -> None:
    sound = Agreement(metric="val_loss", plans=12, correlation=0.72, p_value=0.004)
    assert agreement_sentence(sound) == (
        "The supernet's val_loss and that of the full trainings have a rank correlation of 0.72 (Spearman, 12 plans)."
    )
    warning = "the shortlist may have missed the best plan, and `evaluator: train` would search without it."
    low = agreement_sentence(replace(sound, correlation=0.41, p_value=0.03))
    assert low.endswith(f"0.41 (Spearman, 12 plans), which is below 0.5: {warning}")
    unsure = agreement_sentence(replace(sound, correlation=0.6, plans=5, p_value=0.14))
    assert unsure.endswith(f"0.60 (Spearman, 5 plans), which is not significantly above 0 (p = 0.14): {warning}")
    both = agreement_sentence(replace(sound, correlation=-0.2, p_value=0.7))
    assert both.endswith(f", which is below 0.5 and not significantly above 0 (p = 0.7): {warning}")
