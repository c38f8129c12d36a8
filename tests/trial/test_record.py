import pickle
from dataclasses import replace

import pytest

from headtune.heads.plan import HeadCount, HeadPlan
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

RUNNING = TrialRecord(
    number=0,
    kind="search",
    label="",
    plan=HeadPlan.of({"attn": HeadCount(4, 4, 16)}),
    params={},
    repeat=0,
    seed=0,
    outcome=None,
)


def test_a_trial_that_runs_knows_nothing_yet() -> None:
    assert RUNNING.feasible
    assert not RUNNING.on_offer
    assert (RUNNING.metrics, RUNNING.violations, RUNNING.curve, RUNNING.latency) == ({}, {}, (), None)


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize(("violation", "feasible"), [(-1.0, True), (0.0, True), (0.1, False)])
def test_only_what_was_trained_to_the_end_and_is_feasible_is_on_offer(
    outcome: Outcome, violation: float, feasible: bool
) -> None:
    record = replace(RUNNING, outcome=outcome, violations={"latency_ms": violation, "parameters": -5.0})
    assert record.feasible is feasible
    assert record.on_offer is (outcome is Outcome.OK and feasible)


def test_it_is_a_value() -> None:
    record = replace(RUNNING, outcome=Outcome.OK, metrics={"val": 1.0}, curve=((1, 0.5), (2, 1.0)))
    assert pickle.loads(pickle.dumps(record)) == record
