import math

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.search.judgement import STOPPED_ITSELF, judge, not_finite
from headtune.trial import Outcome, TrialRecord, TrialResult

GOALS = (Objective(metric="bleu", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))
RECORD = TrialRecord(
    number=3,
    kind="search",
    label="",
    plan=HeadPlan.of({"a": HeadCount(4, 4, 8)}),
    params={},
    repeat=0,
    seed=0,
    outcome=None,
    metrics={"latency_ms": 2.0},
    seconds={"ask": 0.1},
)


def result(outcome: Outcome = Outcome.OK, **metrics: float) -> TrialResult:
    return TrialResult(outcome=outcome, message="", metrics=metrics, test_metrics={"t": 1.0}, seconds={"train": 2.0})


def test_a_good_trial_keeps_everything_and_what_was_measured_wins() -> None:
    record, outcome = judge(RECORD, result(bleu=27.0, latency_ms=99.0, other=1.0), GOALS)
    assert outcome is Outcome.OK
    assert record.metrics == {"bleu": 27.0, "latency_ms": 2.0, "other": 1.0}
    assert record.seconds == {"ask": 0.1, "train": 2.0}
    assert (record.test_metrics, record.message) == ({"t": 1.0}, "trained to the end")


@pytest.mark.parametrize(
    ("metrics", "outcome", "message"),
    [
        ({}, Outcome.CRASHED, "never reported bleu; it reported latency_ms"),
        ({"blue": 1.0}, Outcome.CRASHED, "never reported bleu; it reported blue, latency_ms"),
        ({"bleu": math.nan}, Outcome.DIVERGED, "reported a value that is not finite: bleu = nan"),
        (
            {"bleu": 1.1e100},
            Outcome.DIVERGED,
            "reported a value that is not finite: bleu = 1.1e+100 (beyond 1e+100)",
        ),
        ({"bleu": -1e100}, Outcome.OK, "trained to the end"),
        ({"bleu": -math.inf}, Outcome.DIVERGED, "reported a value that is not finite: bleu = -inf"),
        ({"bleu": 1.0, "other": math.nan}, Outcome.OK, "trained to the end"),
    ],
)
def test_a_trial_is_as_good_as_its_numbers(metrics: dict[str, float], outcome: Outcome, message: str) -> None:
    record, judged = judge(RECORD, result(**metrics), GOALS)
    assert (judged, record.message) == (outcome, message)


@pytest.mark.parametrize(
    ("said", "believed"),
    [(Outcome.STOPPED, Outcome.DIVERGED), (Outcome.CRASHED, Outcome.CRASHED), (Outcome.OK, Outcome.OK)],
)
def test_a_trial_that_was_stopped_for_a_wild_report_diverged(said: Outcome, believed: Outcome) -> None:
    record, outcome = judge(RECORD, result(said, bleu=1.0), GOALS, "reported a value that is not finite: bleu = nan")
    assert outcome is believed
    assert ("not finite" in record.message) == (believed is Outcome.DIVERGED)


@pytest.mark.parametrize(("asked", "message"), [(True, "stopped early"), (False, STOPPED_ITSELF)])
def test_a_trial_that_stopped_unasked_is_not_said_to_be_worse_than_others(asked: bool, message: str) -> None:
    stopped = TrialResult(outcome=Outcome.STOPPED, message="stopped early")
    record, outcome = judge(RECORD, stopped, GOALS, asked=asked)
    assert (record.message, outcome) == (message, Outcome.STOPPED)


def test_a_message_is_kept_unless_it_is_a_book() -> None:
    kept, _ = judge(RECORD, TrialResult(outcome=Outcome.CRASHED, message="m" * 2000), GOALS)
    cut, _ = judge(RECORD, TrialResult(outcome=Outcome.CRASHED, message="m" * 2001), GOALS)
    assert kept.message == "m" * 2000
    assert cut.message == "m" * 1999 + "…"


def test_only_objectives_have_to_be_finite() -> None:
    assert not_finite({"other": math.nan, "bleu": 1.0}, GOALS) is None
    assert not_finite({"bleu": math.inf, "latency_ms": math.nan}, GOALS) == (
        "reported a value that is not finite: bleu = inf, latency_ms = nan"
    )
