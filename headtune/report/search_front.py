"""The front as the search saw it, one seed a plan, and how it grew."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from headtune.pareto import hypervolume, non_dominated
from headtune.pareto.dominance import losses
from headtune.study.record import StudyRecord
from headtune.trial.record import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The hypervolume after a trial was trained.

    Attributes:
        trained: how many trials were trained so far, this one included.
        number: the trial's number in the study.
    """

    trained: int
    number: int
    hypervolume: float


def objective_values(record: StudyRecord, trial: TrialRecord) -> tuple[float, ...] | None:
    """The trial's values in the objectives' order; ``None`` where one is missing or not finite."""
    values = tuple(trial.metrics.get(objective.metric, math.nan) for objective in record.objectives)
    return values if all(map(math.isfinite, values)) else None


def trials_on_offer(record: StudyRecord) -> tuple[TrialRecord, ...]:
    """The trials that may enter the front: trained to the end, feasible, every objective known."""
    return tuple(trial for trial in record.trials if trial.on_offer and objective_values(record, trial) is not None)


def front_trials(record: StudyRecord) -> tuple[TrialRecord, ...]:
    """The trials on offer that no other trial on offer dominates, in the order of their numbers."""
    offered = trials_on_offer(record)
    return tuple(offered[index] for index in non_dominated(_values(record, offered), record.objectives))


def front_hypervolume(record: StudyRecord) -> float | None:
    """The hypervolume between the front and the reference point; ``None`` while there is no reference point."""
    if record.reference_point is None:
        return None
    return hypervolume(_values(record, front_trials(record)), record.objectives, record.reference_point)


def hypervolume_growth(record: StudyRecord) -> tuple[Growth, ...]:
    """The hypervolume after each trained trial, in the order in which they ended; empty without a reference point."""
    if record.reference_point is None:
        return ()
    trained = [trial for trial in record.trials if trial.trained]
    if all(trial.ended is not None for trial in trained):
        trained.sort(key=attrgetter("ended"))
    offered = trials_on_offer(record)
    values = _values(record, offered)
    turned = losses(values, record.objectives).tolist()
    points = {trial.number: point for trial, *point in zip(offered, turned, values, strict=True)}
    growth, front, volume = [], list[list[Sequence[float]]](), 0.0
    for position, trial in enumerate(trained, start=1):
        point = points.get(trial.number)
        if point is not None and not any(_covers(other, point) for other in front):
            front = [point, *(other for other in front if not _covers(point, other))]
            volume = hypervolume([inside for _, inside in front], record.objectives, record.reference_point)
        growth.append(Growth(trained=position, number=trial.number, hypervolume=volume))
    return tuple(growth)


def _covers(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> bool:
    """Whether a point, given as its losses and its values, is nowhere worse than another."""
    return all(a <= b for a, b in zip(one[0], other[0], strict=True))


def _values(record: StudyRecord, offered: Sequence[TrialRecord]) -> list[tuple[float, ...]]:
    return [values for trial in offered if (values := objective_values(record, trial)) is not None]
