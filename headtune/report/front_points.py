"""Where trials lie in a picture of two metrics."""

import math
from dataclasses import dataclass
from enum import StrEnum

from headtune.pareto.objective import LATENCY, Objective, is_latency
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord


class Standing(StrEnum):
    """Why a trial is drawn as it is; the value is what the legend says."""

    FINISHED = "trained to the end, one seed"
    STOPPED = "stopped early, at its last report"
    INFEASIBLE = "breaks a constraint"
    UNTRAINED = "breaks a constraint, so not trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis shows.

    Attributes:
        is_objective: whether the study optimises it; else it is only shown beside the one objective.
    """

    objective: Objective
    is_objective: bool = True

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.objective.metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One trial in a picture; ``y`` is ``None`` for a plan that was measured but never trained."""

    number: int
    standing: Standing
    x: float
    y: float | None


def picture_axes(record: StudyRecord) -> tuple[tuple[Axis, Axis], ...]:
    """The (horizontal, vertical) pairs that show the study: the first quality objective against each other objective.

    A single objective is shown against the latency, where it is known, else against the parameters.
    """
    quality = quality_objective(record) or record.objectives[0]
    others = [objective for objective in record.objectives if objective != quality]
    if others:
        return tuple((Axis(objective=other), Axis(objective=quality)) for other in others)
    timed = sorted({metric for trial in record.trials for metric in trial.metrics if is_latency(metric)})  # bare: first
    beside = next(metric for metric in (*timed, "parameters", LATENCY) if metric != quality.metric)
    return (
        (Axis(objective=Objective(metric=beside, direction="minimize"), is_objective=False), Axis(objective=quality)),
    )


def quality_objective(record: StudyRecord) -> Objective | None:
    """The first objective that the task reports: the one that learning curves show."""
    return next((objective for objective in record.objectives if not objective.measured), None)


def dots(record: StudyRecord, x: Axis, y: Axis) -> tuple[Dot, ...]:
    """Every trial of the search that has a place in the picture."""
    placed = (_dot(record, trial, x, y) for trial in record.trials)
    return tuple(dot for dot in placed if dot is not None)


def _dot(record: StudyRecord, trial: TrialRecord, x: Axis, y: Axis) -> Dot | None:
    across, up = _value(record, trial, x.metric), _value(record, trial, y.metric)
    standing = _standing(trial, trained=up is not None or y.objective.measured)
    if across is None or standing is None or (up is None and standing is not Standing.UNTRAINED):
        return None
    return Dot(number=trial.number, standing=standing, x=across, y=up)


def _standing(trial: TrialRecord, trained: bool) -> Standing | None:
    match trial.outcome:
        case Outcome.OK:
            return Standing.FINISHED if trial.feasible else Standing.INFEASIBLE
        case Outcome.STOPPED:
            return Standing.STOPPED
        case Outcome.INFEASIBLE:
            return Standing.INFEASIBLE if trained else Standing.UNTRAINED
        case _:
            return None


def _value(record: StudyRecord, trial: TrialRecord, metric: str) -> float | None:
    quality = quality_objective(record)
    value = trial.metrics.get(metric, math.nan)
    if math.isnan(value) and trial.outcome is Outcome.STOPPED and quality is not None and quality.metric == metric:
        value = trial.curve[-1][1] if trial.curve else math.nan
    return value if math.isfinite(value) else None
