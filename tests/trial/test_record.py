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


def test_a_title_says_which_it_is_of_which_phase_and_what_is_odd_about_it() -> None:
    assert RUNNING.title == "trial 0 4"
    rule = replace(RUNNING, number=7, kind="baseline", label="rule")
    assert rule.title == "trial 7 (rule) 4"
    assert replace(rule, in_space=False).title == "trial 7 (rule, outside the space) 4"
    assert replace(RUNNING, kind="verify").title == "verification 0 4"


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


def test_a_record_shows_what_it_is_of_and_how_it_stands() -> None:
    plan = HeadPlan.of({"a": HeadCount(4, 4, 8), "b": HeadCount(2, 1, 16)})
    known = {"kind": "search", "label": "", "plan": plan, "repeat": 0, "seed": 7}
    done = TrialRecord(
        number=3, params={"lr": 0.1}, outcome=Outcome.OK, metrics={"acc": 0.987654321, "parameters": 4465}, **known
    )  # type: ignore[arg-type]
    assert repr(done) == "TrialRecord(3, search, '4-2/1', params={'lr': 0.1}, ok, acc=0.987654, parameters=4465)"
    running = TrialRecord(number=4, params={}, outcome=None, **known)  # type: ignore[arg-type]
    assert repr(running) == "TrialRecord(4, search, '4-2/1', running)"
