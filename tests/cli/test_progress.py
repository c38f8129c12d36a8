from dataclasses import replace

import pytest

from headtune.cli.progress import Progress
from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.trial import Outcome, TrialRecord

GOALS = (Objective(metric="acc", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def started(number: int, kind: str = "search", heads: int = 2) -> TrialRecord:
    return TrialRecord(
        number=number,
        kind=kind,  # type: ignore[arg-type]
        label="",
        plan=HeadPlan.of({"a": HeadCount(heads, heads, 8)}),
        params={},
        repeat=0,
        seed=0,
        outcome=None,
    )


def ended(record: TrialRecord, acc: float, latency_ms: float, outcome: Outcome = Outcome.OK) -> TrialRecord:
    return replace(record, outcome=outcome, metrics={"acc": acc, "latency_ms": latency_ms})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    made = Progress(GOALS, clock)
    made.phase("search", "10 trials")
    made.plan(10, 0)
    return made


def test_trials_are_in_flight_until_they_end(progress: Progress) -> None:
    for number in (3, 1, 2):
        progress.trial(started(number, heads=number))
    assert [record.number for record in progress.running] == [1, 2, 3]
    progress.trial(ended(started(2, heads=2), 0.9, 3.0))
    assert [record.number for record in progress.running] == [1, 3]
    assert (progress.done, progress.asked) == (1, 10)


def test_a_trial_that_reports_is_one_trial(progress: Progress) -> None:
    progress.trial(started(1))
    progress.trial(replace(started(1), curve=((1, 0.5),)))
    assert progress.running == (replace(started(1), curve=((1, 0.5),)),)


def test_stopped_trials_count_and_infeasible_and_failed_ones_do_not(progress: Progress) -> None:
    for number, outcome in enumerate(Outcome):
        progress.trial(started(number))
        progress.trial(ended(started(number), 0.9, 3.0, outcome))
    assert progress.done == 2, "to the end and stopped"
    assert all(progress.outcomes[outcome] == 1 for outcome in Outcome)


def test_verification_is_done_when_every_training_has_ended(progress: Progress) -> None:
    progress.phase("verify")
    progress.plan(3, 1)
    progress.trial(started(0, "verify"))
    progress.trial(ended(started(0, "verify"), 0.0, 0.0, Outcome.CRASHED))
    assert progress.done == 2


def test_what_was_there_before_counts_once(progress: Progress) -> None:
    progress.plan(10, 4)
    progress.trial(ended(started(0), 0.9, 3.0))  # told again, though it ended in an earlier run
    assert progress.done == 4
    progress.trial(started(5))
    progress.trial(ended(started(5), 0.9, 3.0))
    assert progress.done == 5


def test_the_time_left_follows_the_pace_of_this_run(progress: Progress, clock: Clock) -> None:
    progress.plan(10, 4)
    assert progress.seconds_left is None
    clock.now += 5
    progress.trial(started(5))
    assert progress.seconds_left is None
    clock.now += 15
    progress.trial(ended(started(5), 0.9, 3.0))
    assert progress.seconds_left == 20 * 5  # one trial in 20 s, five to go
    clock.now += 20
    progress.trial(started(6))
    progress.trial(ended(started(6), 0.9, 3.0))
    assert progress.seconds_left == 20 * 4


def test_nothing_is_left_at_the_end(progress: Progress, clock: Clock) -> None:
    progress.plan(1, 0)
    progress.trial(started(0))
    clock.now += 3
    progress.trial(ended(started(0), 0.9, 3.0))
    assert (progress.done, progress.seconds_left) == (1, None)


def test_the_front_holds_what_is_on_offer_and_not_dominated(progress: Progress) -> None:
    trials = {
        0: ended(started(0), 0.90, 3.0),
        1: ended(started(1), 0.95, 4.0),
        2: ended(started(2), 0.89, 3.5),  # dominated by 0
        3: ended(started(3), 0.99, 1.0, Outcome.STOPPED),
        4: replace(ended(started(4), 0.99, 1.0), violations={"latency_ms": 0.5}),
        5: ended(started(5), float("nan"), 1.0),
        6: replace(started(6), outcome=Outcome.OK, metrics={"latency_ms": 0.1}),
        7: started(7),
    }
    for record in trials.values():
        progress.trial(record)
    assert progress.front.items == (trials[1], trials[0])


def test_the_front_stays_while_finalists_are_verified_and_is_not_made_of_them(progress: Progress) -> None:
    searched = ended(started(0), 0.9, 3.0)
    progress.trial(searched)
    progress.phase("verify")
    progress.trial(ended(started(0, "verify"), 0.99, 1.0))
    assert progress.front.items == (searched,)


def test_a_new_phase_begins_at_nothing(progress: Progress) -> None:
    progress.trial(started(0))
    progress.phase("verify", "2 plans")
    assert (progress.phase_name, progress.detail, progress.asked, progress.done) == ("verify", "2 plans", 0, 0)
    assert progress.running == ()
    assert not progress.outcomes


def test_trials_of_an_earlier_start_are_on_the_front_and_counted_once(progress: Progress) -> None:
    before = [ended(started(0), 0.9, 3.0), ended(started(1), 0.8, 1.0), ended(started(2, "verify"), 0.99, 0.5)]
    progress.plan(10, 2)
    progress.earlier(before)
    progress.trial(started(3))
    progress.trial(ended(started(3), 0.95, 5.0))
    assert [record.number for record in progress.front.items] == [3, 0, 1]
    assert progress.done == 3


def test_an_attempt_that_lost_its_worker_runs_no_longer_when_the_next_one_starts(progress: Progress) -> None:
    progress.trial(started(0))
    progress.trial(started(1, heads=4))
    progress.trial(started(2))  # the training of trial 0 once more
    assert [record.number for record in progress.running] == [1, 2]
    progress.trial(ended(started(2), 0.9, 3.0))
    progress.trial(ended(started(1, heads=4), 0.9, 3.0))
    assert progress.running == ()
    assert progress.done == 2


def test_trainings_of_one_plan_that_differ_run_side_by_side(progress: Progress) -> None:
    runs = [
        started(0),
        started(1, "verify"),
        replace(started(2, "verify"), repeat=2),
        replace(started(3, "verify"), repeat=2, params={"lr": 0.1}),
    ]
    for record in runs:
        progress.trial(record)
    assert progress.running == tuple(runs)


def test_a_plan_that_has_ended_may_be_trained_again(progress: Progress) -> None:
    progress.trial(started(0))
    progress.trial(ended(started(0), 0.9, 3.0))
    progress.trial(started(1))
    assert [record.number for record in progress.running] == [1]
    assert progress.done == 1
