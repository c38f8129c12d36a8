"""What a plan gains and costs against another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headtune.errors import InputError
from headtune.pareto.objective import Direction, is_latency, is_measured
from headtune.report.front_rows import FrontRow
from headtune.study.record import StudyRecord
from headtune.timing import LatencyProfile, compare


class Judgement(StrEnum):
    """What a change means."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    NOISE = "within the noise"
    ONE_SEED = "one seed, noise unknown"
    UNLIKE = "timed under unlike conditions"
    UNKNOWN = "larger than the noise"

    @property
    def tone(self) -> str:
        """``better``, ``worse`` or nothing: how the page colours the change."""
        return self.value if self in (Judgement.BETTER, Judgement.WORSE) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One metric of a plan against that of another.

    Attributes:
        difference: the plan's value minus the other's, in the metric's unit.
        relative: the difference as a share of the other's value; ``None`` where that is 0.
    """

    metric: str
    difference: float
    relative: float | None
    judgement: Judgement


def shown_metrics(record: StudyRecord, rows: Sequence[FrontRow]) -> tuple[str, ...]:
    """The objectives, then what else was measured of the plans shown."""
    objectives = [objective.metric for objective in record.objectives]
    measured = [metric for row in rows for metric in row.measured]
    return tuple(dict.fromkeys([*objectives, *measured]))


def changes(record: StudyRecord, row: FrontRow, against: FrontRow) -> tuple[Change, ...]:
    """Every metric known of both plans, in the order of :func:`shown_metrics`."""
    found = []
    for metric in shown_metrics(record, [row, against]):
        ours, theirs = row.value(metric), against.value(metric)
        if ours is None or theirs is None or not math.isfinite(ours - theirs):
            continue
        doubt = (
            _doubt_of_latency(row.profile(metric), against.profile(metric))
            if is_latency(metric)
            else _doubt(record, metric, row, against)
        )
        judged = _judge(direction_of(record, metric), ours - theirs)
        found.append(_change(metric, ours, theirs, judged=judged, doubt=doubt))
    return tuple(found)


def unjudged_changes(record: StudyRecord, row: FrontRow, against: FrontRow) -> tuple[Change, ...]:
    """Every test metric of both plans; which direction is better is the task's secret."""
    found = []
    for metric, ours in row.test.items():
        if (theirs := against.test.get(metric)) is not None and math.isfinite(ours.mean - theirs.mean):
            doubt = _doubt(record, metric, row, against)
            found.append(_change(metric, ours.mean, theirs.mean, judged=Judgement.UNKNOWN, doubt=doubt))
    return tuple(found)


def direction_of(record: StudyRecord, metric: str) -> Direction | None:
    """The better direction of a metric: the objective's, less for what headtune measures, else unknown."""
    asked = {objective.metric: objective.direction for objective in record.objectives}
    return asked.get(metric, "minimize" if is_measured(metric) else None)


def _change(metric: str, ours: float, theirs: float, *, judged: Judgement, doubt: Judgement | None) -> Change:
    difference = ours - theirs
    return Change(
        metric=metric,
        difference=difference,
        relative=difference / abs(theirs) if theirs else None,
        judgement=Judgement.SAME if difference == 0 else doubt or judged,
    )


def _judge(direction: Direction | None, difference: float) -> Judgement:
    if direction is None:
        return Judgement.UNKNOWN
    return Judgement.BETTER if (difference > 0) == (direction == "maximize") else Judgement.WORSE


def _doubt(record: StudyRecord, metric: str, row: FrontRow, against: FrontRow) -> Judgement | None:
    """Why a difference in quality may be none: the verification found none, or only one seed stands behind it."""
    ours, theirs = ({**one.quality, **one.test}.get(metric) for one in (row, against))
    if ours is None or theirs is None or not record.trains:
        return None
    if min(ours.seeds, theirs.seeds) < 2:
        return Judgement.ONE_SEED
    if record.verdict is None or row.finalist is None or against.finalist is None:
        return Judgement.NOISE
    return None if record.verdict.differ(metric, row.finalist, against.finalist) else Judgement.NOISE


def _doubt_of_latency(ours: LatencyProfile | None, theirs: LatencyProfile | None) -> Judgement | None:
    """The same for two latencies: they differ by no more than both their noise, or nothing is known of it."""
    if ours is None or theirs is None:
        return None
    try:
        return None if compare(ours, theirs).significant else Judgement.NOISE
    except InputError:
        return Judgement.UNLIKE
