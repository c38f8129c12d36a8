"""The recommendation, against finalists whose right answer is known."""

from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.study.judging import NOTHING_FEASIBLE, judge
from headtune.study.record import Finalist

GOALS = (
    Objective(metric="accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


def finalist(
    heads: int, accuracy: tuple[float, ...], latency_ms: float, *labels: str, feasible: bool = True
) -> Finalist:
    return Finalist(
        plan=HeadPlan.of({"a": HeadCount(heads, heads, 64 // heads)}),
        params={},
        labels=labels,
        measured={"latency_ms": latency_ms},
        latency=None,
        quality={"accuracy": accuracy},
        test={},
        tied_with_best=False,
        feasible=feasible,
    )


CLEAR = (
    finalist(1, (0.700, 0.701, 0.699), 1.0, "rule"),
    finalist(2, (0.880, 0.881, 0.879), 1.1),
    finalist(4, (0.900, 0.901, 0.899), 1.6),
    finalist(8, (0.910, 0.911, 0.909), 3.0, "present"),
)


def test_without_a_budget_the_knee_is_chosen() -> None:
    marked, verdict = judge(CLEAR, GOALS, budget=False)
    assert verdict.recommended == 1
    assert verdict.rule == "the knee of the front"
    assert [one.tied_with_best for one in marked] == [False, False, False, True]


def test_with_a_budget_the_best_feasible_plan_is_chosen_when_nothing_ties() -> None:
    within = (*CLEAR[:3], finalist(8, (0.910, 0.911, 0.909), 3.0, "present", feasible=False))
    _, verdict = judge(within, GOALS, budget=True)
    assert verdict.recommended == 2
    assert verdict.rule == "the best accuracy within the constraints"


def test_with_a_budget_the_fastest_tie_of_the_best_is_chosen() -> None:
    noisy = (
        finalist(1, (0.70, 0.72, 0.68), 1.0),
        finalist(4, (0.90, 0.92, 0.88), 1.6),
        finalist(8, (0.91, 0.93, 0.89), 3.0),
    )
    marked, verdict = judge(noisy, GOALS, budget=True)
    assert verdict.recommended == 1
    assert verdict.rule == (
        "the fastest plan within the constraints whose accuracy is not significantly worse than the best"
    )
    assert [one.tied_with_best for one in marked] == [False, True, True]


def test_with_fewer_than_three_points_the_best_quality_is_chosen() -> None:
    _, verdict = judge(CLEAR[:2], GOALS, budget=False)
    assert verdict.recommended == 1
    assert verdict.rule == "the best accuracy"


def test_a_slower_tie_never_wins() -> None:
    slow_twin = (CLEAR[1], finalist(4, (0.8795, 0.8805, 0.8800), 5.0))
    _, verdict = judge(slow_twin, GOALS, budget=True)
    assert verdict.recommended == 0


def test_nothing_feasible_recommends_nothing() -> None:
    hopeless = [finalist(2, (0.9, 0.9), 1.0, feasible=False)]
    _, verdict = judge(hopeless, GOALS, budget=True)
    assert (verdict.recommended, verdict.rule) == (None, NOTHING_FEASIBLE)


def test_a_plan_outside_of_the_space_is_judged_and_never_recommended() -> None:
    outside = [replace(CLEAR[1], in_space=False), CLEAR[0], CLEAR[2]]
    marked, verdict = judge(outside, GOALS, budget=False)
    assert len(marked) == 3
    assert verdict.recommended == 2


def test_a_param_that_differs_is_named() -> None:
    searched = [replace(CLEAR[3], params={"lr": 0.1}), replace(CLEAR[0], params={"lr": 0.2})]
    _, verdict = judge(searched, GOALS, budget=True)
    assert verdict.findings[0].endswith("significant; lr changed too, so the change is not of heads alone.")


def test_heads_that_make_no_difference_are_said_to() -> None:
    flat = [finalist(heads, (0.90, 0.92, 0.88), float(heads)) for heads in (1, 2, 4)]
    _, verdict = judge(flat, GOALS, budget=False)
    assert verdict.findings[0] == (
        "Heads make no significant difference to accuracy here: the finalists differ by at most 0, "
        "and seeds alone spread them by 0.02."
    )


def test_the_gain_against_the_rule_is_a_whole_sentence() -> None:
    _, verdict = judge(CLEAR, GOALS, budget=False)
    assert verdict.findings == (
        "Against the rule of thumb (1), 2 changes accuracy by +0.18 (0.88 against 0.7 over 3 seeds; "
        "spread over seeds 0.001): significant.",
        "Against the present counts (8), 2 changes accuracy by -0.03 (0.88 against 0.91 over 3 seeds; "
        "spread over seeds 0.001): significant.",
    )


def test_one_seed_is_said_to_prove_nothing() -> None:
    _, verdict = judge([finalist(1, (0.7,), 1.0), finalist(2, (0.9,), 2.0)], GOALS, budget=False)
    assert verdict.findings == (
        "Each finalist was trained on one seed only: no difference in accuracy can be told from noise.",
    )


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_both_directions_are_mirrors(direction: str) -> None:
    sign = 1 if direction == "maximize" else -1
    goals = (Objective(metric="accuracy", direction=direction), GOALS[1])  # type: ignore[arg-type]
    mirrored = [
        finalist(index + 1, tuple(sign * value for value in one.quality["accuracy"]), one.measured["latency_ms"])
        for index, one in enumerate(CLEAR)
    ]
    _, verdict = judge(mirrored, goals, budget=False)
    assert verdict.recommended == 1


def test_equal_points_are_no_front_with_a_knee() -> None:
    same = [finalist(heads, (0.9, 0.9), 1.0) for heads in (1, 2, 4)]
    _, verdict = judge(same, GOALS, budget=False)
    assert (verdict.recommended, verdict.rule) == (0, "the best accuracy")


def test_where_nothing_is_trained_one_value_is_the_truth() -> None:
    scored = (
        finalist(1, (0.700,), 1.0, "rule"),
        finalist(2, (0.90999,), 1.1),
        finalist(4, (0.91,), 1.6),
        finalist(8, (0.91,), 3.0, "present"),
    )
    marked, verdict = judge(scored, GOALS, budget=True, exact=True)
    assert verdict.recommended == 2
    assert [one.tied_with_best for one in marked] == [False, False, True, True]
    assert verdict.findings == (
        "Nothing was trained: each plan was scored once, and equal means exactly equal.",
        "Against the rule of thumb (1), 4 changes accuracy by +0.21 (0.91 against 0.7).",
        "Against the present counts (8), 4 changes accuracy by +0 (0.91 against 0.91).",
    )
