from datetime import datetime

import pytest
from optuna.trial import TrialState, create_trial

from headtune.heads import HeadCount, HeadPlan
from headtune.search import attributes
from headtune.search.draft import Draft
from headtune.trial import Measurement, Outcome, TrialRecord

PLAN = HeadPlan.of({"a": HeadCount(4, 2, 8), "b": HeadCount(2, 2, 8)})
RECORD = TrialRecord(
    number=0,
    kind="baseline",
    label="rule",
    plan=PLAN,
    params={"lr": 0.1},
    repeat=0,
    seed=11,
    outcome=None,
    seconds={"ask": 0.25},
)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.OK, "COMPLETE"),
        (Outcome.STOPPED, "PRUNED"),
        (Outcome.INFEASIBLE, "PRUNED"),
        (Outcome.DIVERGED, "FAIL"),
        (Outcome.OUT_OF_MEMORY, "FAIL"),
        (Outcome.CRASHED, "FAIL"),
    ],
)
def test_every_outcome_has_an_honest_state(outcome: Outcome, state: str) -> None:
    assert attributes.state_of(outcome).name == state


def test_a_person_reads_heads_kind_and_label() -> None:
    found = attributes.born(RECORD)
    assert (found["kind"], found["label"], found["heads"]) == ("baseline", "rule", "4/2-2")
    assert found["training"]["plan"] == {"a": [4, 2, 8], "b": [2, 2, 8]}
    assert found["training"]["key"] == Draft.of(RECORD).key


def test_what_is_not_there_is_not_written() -> None:
    found = attributes.known(Measurement(metrics={"parameters": 10}, latency=None, violations={}))
    assert found == {"metrics": {"parameters": 10}}
    assert "test_metrics" not in attributes.ended(RECORD, Outcome.OK)


def test_the_outcome_is_written_last() -> None:
    assert list(attributes.ended(RECORD, Outcome.CRASHED))[-1] == "outcome"


def test_constraints_keep_their_order_and_a_missing_one_is_just_met() -> None:
    vector = attributes.constraint_vector(
        {"parameters": 5.0, "latency_ms": -1.0}, ("latency_ms", "memory", "parameters")
    )
    assert vector == [-1.0, 0.0, 5.0]


def test_a_running_trial_has_no_outcome() -> None:
    trial = create_trial(state=TrialState.RUNNING, user_attrs=attributes.born(RECORD))
    record = attributes.record_of(trial)
    assert isinstance(record.started, datetime)
    assert (record.outcome, record.plan, record.params, record.seconds) == (None, PLAN, {"lr": 0.1}, {"ask": 0.25})


@pytest.mark.parametrize(
    ("state", "outcome"),
    [(TrialState.COMPLETE, Outcome.OK), (TrialState.PRUNED, Outcome.STOPPED), (TrialState.FAIL, Outcome.CRASHED)],
)
def test_a_trial_that_someone_else_ended_is_read_by_its_state(state: TrialState, outcome: Outcome) -> None:
    value = 0.5 if state is TrialState.COMPLETE else None
    trial = create_trial(state=state, value=value, user_attrs=attributes.born(RECORD))
    assert attributes.record_of(trial).outcome is outcome


def test_attempts_that_do_not_count_and_trials_of_others_are_told_apart() -> None:
    born = attributes.born(RECORD)
    stale = create_trial(state=TrialState.FAIL, user_attrs={**born, "outcome": "stale"})
    lost = create_trial(state=TrialState.FAIL, user_attrs={**born, "outcome": "lost"})
    crashed = create_trial(state=TrialState.FAIL, user_attrs={**born, "outcome": "crashed"})
    assert [attributes.superseded(trial) for trial in (stale, lost, crashed)] == [True, True, False]
    assert [attributes.ours(trial) for trial in (stale, create_trial(value=1.0))] == [True, False]
    assert attributes.key_of(stale) == Draft.of(RECORD).key


def test_a_step_that_is_no_whole_number_is_left_out_of_the_curve() -> None:
    trial = create_trial(state=TrialState.RUNNING, user_attrs=attributes.born(RECORD))
    trial.intermediate_values = {2: 0.5, "last": 0.25, None: 1.0, 1.5: 0.1, 1: 0.125}  # type: ignore[dict-item]
    assert attributes.draft_of(trial).curve == attributes.curve_of(trial) == ((1, 0.125), (2, 0.5))
