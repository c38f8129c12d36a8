import logging
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.search import Ledger
from headtune.search.course import LOSSES, Course
from headtune.search.draft import Draft
from headtune.search.judgement import STOPPED_ITSELF
from headtune.search.seeds import trial_seed
from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.trial import Measurement, Outcome, Silent, TrialRecord, TrialResult

GOALS = (Objective(metric="accuracy", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))
DRAFT = Draft(kind="search", plan=HeadPlan.of({"a": HeadCount(4, 4, 8)}))
MEASURED = Measurement(metrics={"latency_ms": 2.0}, latency=None, violations={})
TIMED = LatencyProfile(
    protocol=LatencyProtocol(),
    median_ms=2.0,
    p90_ms=2.0,
    interval_ms=(2.0, 2.0),
    ratio=1.0,
    ratio_interval=(1.0, 1.0),
    reference_median_ms=2.0,
    samples=6,
    settled=True,
    contended=False,
    device_name="a device",
    versions={},
)
GOOD = TrialResult(outcome=Outcome.OK, message="", metrics={"accuracy": 0.9}, seconds={"train": 1.0})


class Ear(Silent):
    def __init__(self) -> None:
        self.heard: list[TrialRecord] = []
        self.notes: list[str] = []

    def trial(self, record: TrialRecord) -> None:
        self.heard.append(record)

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url, "vit", objectives=GOALS, fingerprint={}, manifest={}) as opened:
        yield opened


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture
def course(ledger: Ledger, ear: Ear) -> Course:
    return Course(ledger.book(), 7, 5, ear)


def test_a_trial_from_start_to_end(course: Course, ledger: Ledger, ear: Ear) -> None:
    request = course.start(DRAFT, seconds={"ask": 0.5})
    assert (request.number, request.seed, request.epochs, request.key) == (0, trial_seed(7, 0), 5, DRAFT.key)
    course.measured(0, MEASURED)
    running = course.report(0, 1, {"accuracy": 0.5, "other": 1.0})
    assert running is not None
    assert course.running == [running]
    assert (running.curve, running.metrics) == (((1, 0.5),), {"latency_ms": 2.0})
    ended = course.finish(0, GOOD)
    assert ended is not None
    assert course.running == []
    assert course.ended == course.records == [ended] == list(ledger.trials())
    assert ended.metrics == {"accuracy": 0.9, "latency_ms": 2.0}
    assert ended.seconds == {"ask": 0.5, "train": 1.0}
    assert [record.outcome for record in ear.heard] == [None, None, None, Outcome.OK]


def test_what_comes_late_is_ignored(course: Course, ledger: Ledger) -> None:
    course.start(DRAFT)
    course.measured(0, MEASURED)
    ended = course.finish(0, GOOD)
    assert course.finish(0, TrialResult(outcome=Outcome.CRASHED, message="late")) is None
    assert course.report(0, 9, {"accuracy": 0.1}) is None
    course.measured(0, Measurement(metrics={"latency_ms": 9.0}, latency=None, violations={}))
    course.lost(0, "late")
    assert list(ledger.trials()) == [ended]
    assert course.report(99, 1, {"accuracy": 0.1}) is None
    assert len(course.again) == 0


def test_a_report_that_is_not_finite_ends_the_trial(course: Course) -> None:
    course.start(DRAFT)
    course.measured(0, MEASURED)
    assert course.report(0, 1, {"accuracy": 0.5, "other": math.nan}) is not None
    assert course.report(0, 2, {"accuracy": math.nan}) is None
    assert course.report(0, 3, {"accuracy": 0.5}) is None
    ended = course.finish(0, TrialResult(outcome=Outcome.STOPPED, message=""))
    assert ended is not None
    assert (ended.outcome, ended.curve) == (Outcome.DIVERGED, ((1, 0.5),))
    assert ended.message == "reported a value that is not finite: accuracy = nan"


def test_a_report_without_the_quality_leaves_no_point(course: Course) -> None:
    course.start(DRAFT)
    record = course.report(0, 1, {"loss": 0.5})
    assert record is not None
    assert record.curve == ()


def test_only_a_trial_that_was_asked_to_stop_was_stopped_by_the_study(course: Course) -> None:
    stopped = TrialResult(outcome=Outcome.STOPPED, message="stopped early")
    asked, unasked = (course.start(replace(DRAFT, repeat=repeat)).number for repeat in (1, 2))
    course.stop(asked)
    records = [course.finish(number, stopped) for number in (asked, unasked)]
    assert [record.message for record in records if record] == ["stopped early", STOPPED_ITSELF]


def test_a_lost_trial_is_started_again_first_and_at_most_twice(course: Course, ledger: Ledger, ear: Ear) -> None:
    course.again.append(replace(DRAFT, repeat=5))
    draft = DRAFT
    for loss in range(1, LOSSES + 1):
        number = course.start(draft).number
        course.lost(number, "killed")
        if loss < LOSSES:
            draft = course.again.popleft()
            assert draft == DRAFT
    assert [draft.repeat for draft in course.again] == [5]
    (record,) = ledger.trials()
    assert (record.outcome, record.message) == (Outcome.CRASHED, "lost its worker 3 times: killed")
    assert ear.notes == [f"trial {n} 4 lost its worker (killed); it is started again" for n in range(LOSSES - 1)]
    assert [trial.outcome for trial in course.ended] == [Outcome.CRASHED]


def test_a_trial_that_goes_on_from_its_checkpoint_keeps_the_curve_before_it(course: Course, ledger: Ledger) -> None:
    course.start(DRAFT)
    for step, value in ((1, 0.1), (2, 0.2), (3, 0.3)):
        course.report(0, step, {"accuracy": value})
    course.lost(0, "killed")
    course.start(course.again.popleft())
    record = course.report(1, 3, {"accuracy": 0.33})
    assert record is not None
    assert record.curve == ((1, 0.1), (2, 0.2), (3, 0.33))
    assert [trial.curve for trial in ledger.trials()] == [record.curve]


def test_a_trial_that_begins_anew_has_a_curve_of_its_own(course: Course) -> None:
    course.start(DRAFT)
    for step in (1, 2, 3):
        course.report(0, step, {"accuracy": 0.9})
    course.lost(0, "killed")
    course.start(course.again.popleft())
    record = course.report(1, 1, {"accuracy": 0.1})
    assert record is not None
    assert record.curve == ((1, 0.1),)


def test_a_new_course_goes_on_where_the_last_one_left(course: Course, ledger: Ledger) -> None:
    course.start(DRAFT)
    course.measured(0, MEASURED)
    ended = course.finish(0, GOOD)
    course.start(replace(DRAFT, repeat=1))
    fresh = Course(ledger.book(), 7, 5, Silent())
    assert (fresh.ended, fresh.running) == ([ended], [])
    assert list(fresh.again) == [replace(DRAFT, repeat=1)]


def test_a_traceback_goes_to_the_log_alone(course: Course, caplog: pytest.LogCaptureFixture) -> None:
    course.start(DRAFT)
    with caplog.at_level(logging.INFO, logger="headtune"):
        ended = course.finish(0, TrialResult(outcome=Outcome.CRASHED, message="no", detail="Traceback: …"))
    assert ended is not None
    assert "Traceback" not in str(ended)
    assert caplog.messages == ["trial 0 4: no\nTraceback: …"]


def test_a_twin_has_the_same_plan_and_the_same_values_of_the_params_asked_for(course: Course) -> None:
    timed = replace(MEASURED, latency=TIMED)
    drafts = [replace(DRAFT, params={"dropout": dropout, "lr": lr}) for dropout, lr in ((0.0, 1), (0.1, 2), (0.0, 3))]
    assert course.twin(drafts[0], ("dropout",)) is None
    numbers = [course.start(draft).number for draft in drafts[:2]]
    running = course.twin(drafts[2], ("dropout",))
    assert running is not None
    assert (running.number, running.latency) == (numbers[0], None)
    assert course.twin(drafts[2], ("dropout", "lr")) is None
    course.measured(numbers[0], timed)
    for _ in range(2):
        twin = course.twin(drafts[2], ("dropout",))
        assert twin is not None
        assert (twin.number, twin.measurement) == (numbers[0], timed)
        course.finish(numbers[0], GOOD)
    other = replace(drafts[2], plan=HeadPlan.of({"a": HeadCount(2, 2, 16)}))
    assert course.twin(other, ("dropout",)) is None
