"""How the progress of trials is put into words."""

from collections.abc import Sequence

from headtune.cli.progress import Progress
from headtune.cli.wording import duration, value
from headtune.pareto import Objective
from headtune.pareto.objective import is_latency
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_ENDINGS = {
    Outcome.STOPPED: "stopped early",
    Outcome.INFEASIBLE: "broke a constraint",
    Outcome.DIVERGED: "diverged",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.CRASHED: "crashed",
}


def tally(progress: Progress) -> str:
    """How far the phase is: ``12 of 40 done, 2 running, 3 broke a constraint, about 4 min left``."""
    parts = [f"{progress.done} of {progress.asked} done"] if progress.asked else []
    if progress.running:
        parts.append(f"{len(progress.running)} running")
    parts += [
        f"{progress.outcomes[outcome]} {words}" for outcome, words in _ENDINGS.items() if progress.outcomes[outcome]
    ]
    if progress.seconds_left is not None:
        parts.append(f"about {duration(progress.seconds_left)} left")
    return ", ".join(parts)


def trial_ending(record: TrialRecord, objectives: Sequence[Objective]) -> str:
    """How a trial ended: its objectives' values, or the reason why it has none."""
    assert record.outcome is not None
    if record.outcome is not Outcome.OK:
        return record.message or record.outcome.sentence
    known = [goal.metric for goal in objectives if goal.metric in record.metrics]
    return ", ".join(f"{metric} {value(record.metrics[metric])}" for metric in known) or record.outcome.sentence


def trial_state(record: TrialRecord, quality: str) -> str:
    """What a running trial does: its last report, or what is known of it before."""
    if record.curve:
        step, last = record.curve[-1]
        return f"report {step}: {quality} {value(last)}"
    timed = [f"{metric} {value(known)}" for metric, known in record.metrics.items() if is_latency(metric)]
    if timed:
        return f"measured: {', '.join(timed)}"
    return "started"
