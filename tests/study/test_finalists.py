"""Which trials become finalists."""

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.study.finalists import choose_finalists, front_of
from headtune.trial import Outcome, TrialRecord

GOALS = (
    Objective(metric="accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


def trial(
    number: int, accuracy: float, latency_ms: float, label: str = "", outcome: Outcome = Outcome.OK, over: float = -1.0
) -> TrialRecord:
    return TrialRecord(
        number=number,
        kind="baseline" if label else "search",
        label=label,
        plan=HeadPlan.of({"a": HeadCount(number + 1, number + 1, 8)}),
        params={},
        repeat=0,
        seed=0,
        outcome=outcome,
        metrics={"accuracy": accuracy, "latency_ms": latency_ms},
        violations={"latency_ms": over},
    )


STAIRS = [trial(0, 0.9, 4.0), trial(1, 0.8, 3.0), trial(2, 0.5, 1.0), trial(3, 0.79, 3.5)]


def numbers(trials: tuple[TrialRecord, ...]) -> list[int]:
    return [one.number for one in trials]


def test_the_front_holds_what_nothing_dominates() -> None:
    assert numbers(front_of(STAIRS, GOALS).items) == [0, 1, 2]


def test_stopped_infeasible_and_crashed_trials_never_enter() -> None:
    better = [
        trial(4, 0.99, 0.1, outcome=Outcome.STOPPED),
        trial(5, 0.99, 0.1, outcome=Outcome.CRASHED),
        trial(6, 0.99, 0.1, over=0.2),
    ]
    assert numbers(front_of([*STAIRS, *better], GOALS).items) == [0, 1, 2]


def test_all_of_a_short_front_are_taken_and_dominated_trials_are_not() -> None:
    assert sorted(numbers(choose_finalists(STAIRS, GOALS, (0.4, 5.0), top=5))) == [0, 1, 2]


def test_of_a_long_front_those_that_add_most_volume_are_taken() -> None:
    # Against (0.4, 5.0): trial 0 alone holds 0.5; with trial 2 0.5 + 0.1·3 = 0.8, with trial 1 0.5 + 0.4·1 = 0.9.
    assert numbers(choose_finalists(STAIRS, GOALS, (0.4, 5.0), top=2)) == [0, 1]
    # Against (0.0, 5.0): with trial 2 0.9 + 0.5·3 = 2.4, with trial 1 0.9 + 0.8·1 = 1.7.
    assert numbers(choose_finalists(STAIRS, GOALS, (0.0, 5.0), top=2)) == [0, 2]


def test_present_and_rule_are_always_judged_once() -> None:
    named = [*STAIRS, trial(7, 0.1, 9.0, "rule"), trial(8, 0.2, 9.0, "present"), trial(9, 0.1, 9.0, "largest")]
    assert numbers(choose_finalists(named, GOALS, (0.0, 10.0), top=3))[3:] == [7, 8]
    on_front = [trial(0, 0.9, 4.0, "present"), *STAIRS[1:]]
    assert sorted(numbers(choose_finalists(on_front, GOALS, (0.4, 5.0), top=3))) == [0, 1, 2]


def test_a_baseline_that_crashed_is_no_finalist() -> None:
    assert choose_finalists([trial(0, 0, 0, "rule", outcome=Outcome.CRASHED)], GOALS, None, top=3) == ()


def test_neither_what_was_seen_nor_what_is_believed_decides_alone() -> None:
    """Trial 1 is the best that was seen, and smoothed away; trial 3 is believed in."""
    seen = [trial(0, 0.5, 1.0), trial(1, 0.94, 2.0), trial(2, 0.72, 2.5), trial(3, 0.71, 1.9)]
    believed = {0: 0.5, 1: 0.70, 2: 0.72, 3: 0.75}
    assert numbers(front_of(seen, GOALS, believed).items) == [3, 0]
    reference = (0.4, 3.0)
    assert numbers(choose_finalists(seen, GOALS, reference, top=1, believed=believed)) == [1]
    assert numbers(choose_finalists(seen, GOALS, reference, top=2, believed=believed)) == [1, 3]
    assert sorted(numbers(choose_finalists(seen, GOALS, reference, top=5, believed=believed))) == [0, 1, 3]
