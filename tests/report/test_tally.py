from collections import Counter
from dataclasses import replace

import pytest

from headtune.report.tally import (
    OUTCOME_WORDS,
    failed_trials,
    outcome_counts,
    reason,
    tally_sentence,
    trained_trials,
)
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome


def with_outcomes(record: StudyRecord, *outcomes: Outcome | None) -> StudyRecord:
    trials = [replace(record.trials[0], number=i, outcome=outcome) for i, outcome in enumerate(outcomes)]
    return replace(record, trials=tuple(trials), verify_trials=(), trials_asked=40)


def test_every_outcome_has_words() -> None:
    assert set(OUTCOME_WORDS) == {*Outcome, None}


def test_failures_are_neither_stopped_nor_infeasible(record: StudyRecord) -> None:
    mixed = with_outcomes(record, *Outcome, None)
    assert {trial.outcome for trial in failed_trials(mixed)} == {
        Outcome.DIVERGED,
        Outcome.OUT_OF_MEMORY,
        Outcome.CRASHED,
    }


def test_a_failed_retraining_is_among_the_failures(record: StudyRecord) -> None:
    bad = replace(record.verify_trials[0], outcome=Outcome.CRASHED)
    assert failed_trials(replace(record, verify_trials=(bad,))) == (bad,)


def test_trained_are_those_that_finished_or_were_trained_for_a_part(record: StudyRecord) -> None:
    assert trained_trials(with_outcomes(record, *Outcome, None)) == 2


def test_counts_come_in_the_outcomes_order(record: StudyRecord) -> None:
    mixed = with_outcomes(record, None, Outcome.CRASHED, Outcome.OK, Outcome.OK)
    counts = outcome_counts(mixed.trials)
    assert list(counts) == [Outcome.OK, Outcome.CRASHED, None]
    assert counts == dict(Counter(trial.outcome for trial in mixed.trials))


def test_the_tally_in_one_sentence(record: StudyRecord) -> None:
    assert tally_sentence(with_outcomes(record, *Outcome, None)) == (
        "2 trials trained of 40 asked for, 1 of these stopped early, "
        "1 more broke a constraint and cost no training, 1 diverged, 1 ran out of memory, 1 crashed, 1 still running."
    )
    assert tally_sentence(with_outcomes(record, Outcome.OK)) == "1 trial trained of 40 asked for."


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_trial_without_a_message_gets_its_outcomes_sentence(record: StudyRecord, outcome: Outcome) -> None:
    assert reason(replace(record.trials[0], outcome=outcome, message="", violations={})) == outcome.sentence


def test_a_message_is_the_reason(record: StudyRecord) -> None:
    assert reason(replace(record.trials[0], outcome=Outcome.CRASHED, message="no disk")) == "no disk"
    assert reason(replace(record.trials[0], outcome=None, message="x")) == "still running"


def test_a_baseline_trained_in_full_says_what_it_breaks(record: StudyRecord) -> None:
    over = replace(record.trials[0], violations={"latency_ms": 0.25, "parameters": -3.0, "head_dim": 2.0})
    assert reason(over) == "trained to the end; breaks latency_ms by 0.25 and head_dim by 2"
