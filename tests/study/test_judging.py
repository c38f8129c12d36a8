"""The recommendation, against finalists whose right answer is known."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.study.judging import NOTHING_FEASIBLE, exactly, judge
from headtune.study.racing import Rules, differences
from headtune.study.record import Finalist, Verdict

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


def judged(
    finalists: Sequence[Finalist], objectives: Sequence[Objective], budget: bool, *, exact: bool = False
) -> tuple[tuple[Finalist, ...], Verdict]:
    """The verdict on finalists that had one look, after all their seeds."""
    if exact:
        return judge(finalists, objectives, budget, better=exactly(finalists, objectives), exact=True)
    rows = [dict(enumerate(map(objectives[0].loss, one.quality["accuracy"]), start=1)) for one in finalists]
    most = max(map(len, rows))
    found = differences(rows, [most] * len(rows), Rules(seeds=most, most=most))
    return judge(finalists, objectives, budget, better={"accuracy": found})


CLEAR = (
    finalist(1, (0.700, 0.701, 0.699), 1.0, "rule"),
    finalist(2, (0.880, 0.881, 0.879), 1.1),
    finalist(4, (0.900, 0.901, 0.899), 1.6),
    finalist(8, (0.910, 0.911, 0.909), 3.0, "present"),
)


def test_without_a_budget_the_knee_is_chosen() -> None:
    marked, verdict = judged(CLEAR, GOALS, budget=False)
    assert verdict.recommended == 1
    assert verdict.rule == "the knee of the front"
    assert [one.tied_with_best for one in marked] == [False, False, False, True]


def test_with_a_budget_the_best_feasible_plan_is_chosen_when_nothing_ties() -> None:
    within = (*CLEAR[:3], finalist(8, (0.910, 0.911, 0.909), 3.0, "present", feasible=False))
    _, verdict = judged(within, GOALS, budget=True)
    assert verdict.recommended == 2
    assert verdict.rule == "the best accuracy within the constraints"


def test_with_a_budget_the_fastest_tie_of_the_best_is_chosen() -> None:
    noisy = (
        finalist(1, (0.70, 0.72, 0.68), 1.0),
        finalist(4, (0.90, 0.92, 0.88), 1.6),
        finalist(8, (0.91, 0.93, 0.89), 3.0),
    )
    marked, verdict = judged(noisy, GOALS, budget=True)
    assert verdict.recommended == 1
    assert verdict.rule == (
        "the fastest plan within the constraints whose accuracy is not significantly worse than the best"
    )
    assert [one.tied_with_best for one in marked] == [False, True, True]


def test_with_fewer_than_three_points_the_best_quality_is_chosen() -> None:
    _, verdict = judged(CLEAR[:2], GOALS, budget=False)
    assert verdict.recommended == 1
    assert verdict.rule == "the best accuracy"


def test_a_slower_tie_never_wins() -> None:
    slow_twin = (CLEAR[1], finalist(4, (0.8795, 0.8805, 0.8800), 5.0))
    _, verdict = judged(slow_twin, GOALS, budget=True)
    assert verdict.recommended == 0


def test_nothing_feasible_recommends_nothing() -> None:
    hopeless = [finalist(2, (0.9, 0.9), 1.0, feasible=False)]
    _, verdict = judged(hopeless, GOALS, budget=True)
    assert (verdict.recommended, verdict.rule) == (None, NOTHING_FEASIBLE)


def test_a_plan_outside_of_the_space_is_judged_and_never_recommended() -> None:
    outside = [replace(CLEAR[1], in_space=False), CLEAR[0], CLEAR[2]]
    marked, verdict = judged(outside, GOALS, budget=False)
    assert len(marked) == 3
    assert verdict.recommended == 2


def test_a_param_that_differs_is_named() -> None:
    searched = [replace(CLEAR[3], params={"lr": 0.1}), replace(CLEAR[0], params={"lr": 0.2})]
    _, verdict = judged(searched, GOALS, budget=True)
    assert verdict.findings[0].endswith("significant; lr changed too, so the change is not of heads alone.")


def test_heads_that_make_no_difference_are_said_to() -> None:
    flat = [finalist(heads, (0.90, 0.92, 0.88), float(heads)) for heads in (1, 2, 4)]
    _, verdict = judged(flat, GOALS, budget=False)
    assert verdict.findings[0] == (
        "Heads make no significant difference to accuracy here: the finalists differ by at most 0, "
        "and seeds alone spread them by 0.02."
    )


def test_the_gain_against_the_rule_is_a_whole_sentence() -> None:
    _, verdict = judged(CLEAR, GOALS, budget=False)
    assert verdict.findings == (
        "Against the rule of thumb (1), 2 changes accuracy by +0.18 (0.88 against 0.7 over 3 seeds; "
        "spread over seeds 0.001): significant.",
        "Against the present counts (8), 2 changes accuracy by -0.03 (0.88 against 0.91 over 3 seeds; "
        "spread over seeds 0.001): significant.",
    )


def test_one_seed_is_said_to_prove_nothing() -> None:
    _, verdict = judged([finalist(1, (0.7,), 1.0), finalist(2, (0.9,), 2.0)], GOALS, budget=False)
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
    _, verdict = judged(mirrored, goals, budget=False)
    assert verdict.recommended == 1


def test_equal_points_are_no_front_with_a_knee() -> None:
    same = [finalist(heads, (0.9, 0.9), 1.0) for heads in (1, 2, 4)]
    _, verdict = judged(same, GOALS, budget=False)
    assert (verdict.recommended, verdict.rule) == (0, "the best accuracy")


def test_where_nothing_is_trained_one_value_is_the_truth() -> None:
    scored = (
        finalist(1, (0.700,), 1.0, "rule"),
        finalist(2, (0.90999,), 1.1),
        finalist(4, (0.91,), 1.6),
        finalist(8, (0.91,), 3.0, "present"),
    )
    marked, verdict = judged(scored, GOALS, budget=True, exact=True)
    assert verdict.recommended == 2
    assert [one.tied_with_best for one in marked] == [False, False, True, True]
    assert verdict.findings == (
        "Nothing was trained: each plan was scored once, and equal means exactly equal.",
        "Against the rule of thumb (1), 4 changes accuracy by +0.21 (0.91 against 0.7).",
        "Against the present counts (8), 4 changes accuracy by +0 (0.91 against 0.91).",
    )


def test_differences_that_were_found_decide_whatever_the_values_say() -> None:
    alike = [finalist(heads, (0.90, 0.92, 0.88), float(heads), *labels) for heads, *labels in ((1,), (2, "rule"), (4,))]
    marked, verdict = judge(alike, GOALS, budget=True, better={"accuracy": {(2, 0)}}, best=2)
    assert [one.tied_with_best for one in marked] == [False, True, True]
    assert verdict.recommended == 1
    assert verdict.differ("accuracy", 0, 2)
    assert verdict.differ("accuracy", 2, 0)
    assert not verdict.differ("accuracy", 0, 1)
    assert not any(finding.startswith("Heads make no") for finding in verdict.findings)


def test_unlike_numbers_of_seeds_are_said() -> None:
    raced = [finalist(1, (0.7, 0.701, 0.699), 1.0, "rule"), finalist(2, (0.9, 0.9, 0.901, 0.899), 2.0)]
    _, verdict = judged(raced, GOALS, budget=True)
    assert "(0.9 against 0.7 over 4 and 3 seeds; " in verdict.findings[0]


def test_the_probability_of_the_front_is_that_of_the_noise() -> None:
    # Equally good, so the slower one is on the front with probability a half, and the faster one surely.
    even = [finalist(1, (0.90, 0.92, 0.88), 1.0), finalist(2, (0.90, 0.92, 0.88), 2.0)]
    first, second = judged(even, GOALS, budget=False)[0]
    assert first.front_probability == 1
    assert second.front_probability == pytest.approx(0.5, abs=0.06)  # four standard errors of 1000 draws
    clear, _ = judged(CLEAR, GOALS, budget=False)
    assert [one.front_probability for one in clear] == [1, 1, 1, 1]
    outside = [replace(even[0], in_space=False), even[1]]
    assert [one.front_probability for one in judged(outside, GOALS, budget=False)[0]] == [0, 1]
    single = [finalist(1, (0.7,), 1.0), finalist(2, (0.9,), 2.0)]
    assert [one.front_probability for one in judged(single, GOALS, budget=False)[0]] == [None, None]
    exact, _ = judged(single, GOALS, budget=False, exact=True)
    assert [one.front_probability for one in exact] == [1, 1]
