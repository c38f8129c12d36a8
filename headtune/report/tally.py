"""How the trials of a study ended."""

from collections import Counter
from collections.abc import Iterable

from headtune.report.wording import count, listing
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

OUTCOME_WORDS = {
    Outcome.OK: "trained to the end",
    Outcome.STOPPED: "stopped early",
    Outcome.INFEASIBLE: "breaks a constraint",
    Outcome.DIVERGED: "diverged",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.CRASHED: "crashed",
    None: "still running",
}


def failed_trials(record: StudyRecord) -> tuple[TrialRecord, ...]:
    """Every trial that failed, retrainings of finalists included."""
    return tuple(trial for trial in (*record.trials, *record.verify_trials) if trial.failed)


def trained_trials(record: StudyRecord) -> int:
    """How many trials count against the number asked for: trained to the end or until stopped."""
    return sum(trial.trained for trial in record.trials)


def reason(trial: TrialRecord) -> str:
    """Why the trial ended as it did, in plain words."""
    if trial.outcome is None:
        return "still running"
    said = trial.message or trial.outcome.sentence
    broken = [f"{name} by {amount:.4g}" for name, amount in trial.violations.items() if amount > 0]
    if trial.outcome is Outcome.OK and broken:
        return f"{said}; breaks {listing(broken)}"
    return said


def outcome_counts(trials: Iterable[TrialRecord]) -> dict[Outcome | None, int]:
    """How many trials ended each way, in the outcomes' order; the running ones last."""
    counter = Counter(trial.outcome for trial in trials)
    return {outcome: counter[outcome] for outcome in (*Outcome, None) if counter[outcome]}


def tally_sentence(record: StudyRecord) -> str:
    """How many plans were trained of how many asked for, and what became of the others."""
    counts = outcome_counts(record.trials)
    trained = trained_trials(record)
    head = f"{count(trained, 'trial')} trained of {record.trials_asked:,} asked for"
    said = {
        Outcome.STOPPED: "of these stopped early",
        Outcome.INFEASIBLE: "more broke a constraint and cost no training",
        Outcome.DIVERGED: "diverged",
        Outcome.OUT_OF_MEMORY: "ran out of memory",
        Outcome.CRASHED: "crashed",
        None: "still running",
    }
    rest = [f"{counts[outcome]:,} {words}" for outcome, words in said.items() if outcome in counts]
    return ", ".join([head, *rest]) + "."
