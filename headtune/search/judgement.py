"""From what a worker says of a trial to what the study believes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from headtune.pareto import Objective
from headtune.trial.messages import TrialResult
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

STOPPED_ITSELF = (
    "ended itself: the task raised StopTrial, which the study had not asked for, so it has no final metrics"
)

BEYOND = 1e100
"""Of values larger than this, neither a spread nor a volume could be told; a model that reports one has diverged."""

_LONGEST = 2000


def judge(
    record: TrialRecord,
    result: TrialResult,
    objectives: Sequence[Objective],
    wild: str | None = None,
    *,
    asked: bool = True,
) -> tuple[TrialRecord, Outcome]:
    """The record as it ended, and its outcome.

    A trial is only as good as its numbers: without every objective it crashed, with one that is not finite it diverged.

    Args:
        record: the trial as it ran.
        result: what its worker says.
        wild: what it reported that is not finite, for which it was stopped.
        asked: whether the study asked it to stop.
    """
    metrics = {**result.metrics, **record.metrics}
    outcome, message = result.outcome, result.message or result.outcome.sentence
    if outcome is Outcome.STOPPED and wild is not None:
        outcome, message = Outcome.DIVERGED, wild
    elif outcome is Outcome.STOPPED and not asked:
        message = STOPPED_ITSELF
    elif outcome is Outcome.OK:
        outcome, message = _checked(metrics, objectives) or (outcome, message)
    ended = replace(
        record,
        message=_short(message),
        metrics=metrics,
        test_metrics=dict(result.test_metrics),
        seconds={**record.seconds, **result.seconds},
    )
    return ended, outcome


def not_finite(metrics: Mapping[str, float], objectives: Sequence[Objective]) -> str | None:
    """What of the objectives in *metrics* is not finite, or :data:`BEYOND`; ``None`` where all is well."""
    wild = [
        f"{goal.metric} = {metrics[goal.metric]}{f' (beyond {BEYOND:.0e})' if isfinite(metrics[goal.metric]) else ''}"
        for goal in objectives
        if goal.metric in metrics and not abs(metrics[goal.metric]) <= BEYOND
    ]
    return f"{Outcome.DIVERGED.sentence}: {', '.join(wild)}" if wild else None


def _checked(metrics: Mapping[str, float], objectives: Sequence[Objective]) -> tuple[Outcome, str] | None:
    missing = [goal.metric for goal in objectives if goal.metric not in metrics]
    if missing:
        came = ", ".join(sorted(metrics)) or "nothing"
        return Outcome.CRASHED, f"never reported {', '.join(missing)}; it reported {came}"
    wild = not_finite(metrics, objectives)
    return None if wild is None else (Outcome.DIVERGED, wild)


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"
