"""What a plan gains and costs against another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headtune.errors import InputError
from headtune.pareto.objective import Direction
from headtune.report.front_rows import FrontRow
from headtune.report.wording import is_measured
from headtune.study.record import StudyRecord
from headtune.timing import differs


class Judgement(StrEnum):
    """What a change means."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    NOISE = "within the noise"
    ONE_SEED = "one seed, noise unknown"
    UNKNOWN = "direction unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One metric of a plan against that of another.

    Attributes:
        difference: the plan's value minus the other's, in the metric's unit.
        relative: the difference as a share of the other's value; ``None`` where that is 0.
        noise: the larger of the two standard deviations over seeds; ``None`` for a measured metric and with one seed.
    """

    metric: str
    difference: float
    relative: float | None
    noise: float | None
    judgement: Judgement


def shown_metrics(record: StudyRecord, rows: Sequence[FrontRow]) -> tuple[str, ...]:
    """The objectives, then what else was measured of the plans shown."""
    objectives = [objective.metric for objective in record.objectives]
    measured = [metric for row in rows for metric in row.measured]
    return tuple(dict.fromkeys([*objectives, *measured]))


def changes(record: StudyRecord, row: FrontRow, against: FrontRow) -> tuple[Change, ...]:
    """Every metric known of both plans, in the order of :func:`shown_metrics`."""
    found = (_change(record, metric, row, against) for metric in shown_metrics(record, [row, against]))
    return tuple(change for change in found if change is not None)


def direction_of(record: StudyRecord, metric: str) -> Direction | None:
    """The better direction of a metric: the objective's, less for what headtune measures, else unknown."""
    asked = {objective.metric: objective.direction for objective in record.objectives}
    return asked.get(metric, "minimize" if is_measured(metric) else None)


def _change(record: StudyRecord, metric: str, row: FrontRow, against: FrontRow) -> Change | None:
    ours, theirs = row.value(metric), against.value(metric)
    if ours is None or theirs is None or not math.isfinite(ours - theirs):
        return None
    spreads = row.deviation(metric), against.deviation(metric)
    noise = None if spreads[0] is None or spreads[1] is None else max(spreads[0], spreads[1])
    difference = ours - theirs
    if difference == 0:
        judgement = Judgement.SAME
    elif noise is None and not is_measured(metric):
        judgement = Judgement.ONE_SEED
    elif _drowned(metric, difference, noise, row, against):
        judgement = Judgement.NOISE
    else:
        judgement = _judge(direction_of(record, metric), difference)
    return Change(
        metric=metric,
        difference=difference,
        relative=difference / abs(theirs) if theirs else None,
        noise=noise,
        judgement=judgement,
    )


def _drowned(metric: str, difference: float, noise: float | None, row: FrontRow, against: FrontRow) -> bool:
    """Whether the noise is as large as the difference: one standard deviation, or intervals of latency that overlap."""
    if metric == "latency_ms" and row.latency is not None and against.latency is not None:
        try:
            return not differs(row.latency, against.latency)
        except InputError:  # timed on different devices: nothing can be said of their noise
            return False
    return noise is not None and abs(difference) <= noise


def _judge(direction: Direction | None, difference: float) -> Judgement:
    if direction is None:
        return Judgement.UNKNOWN
    return Judgement.BETTER if (difference > 0) == (direction == "maximize") else Judgement.WORSE
