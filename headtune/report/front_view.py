"""What a panel of the front's picture shows: its scales, its limits, and how far the error bars reach."""

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes

from headtune.report.front_points import Axis, Dot, Standing
from headtune.report.front_rows import FrontRow
from headtune.report.wording import axis_label, metric_title
from headtune.study.record import StudyRecord

_LOG_FROM = 30.0
_MARGIN = 0.07
_THOUSANDS_FROM = 10_000

Point = tuple[float, float]
"""Two values: across and up, or below and above."""


def frame_panel(
    axes: Axes,
    rows: Sequence[FrontRow],
    pair: tuple[Axis, Axis],
    panel: Sequence[Dot],
    reference: Point | None,
) -> None:
    """Label the axes and set their limits, so that every trained plan and the reference point lie inside."""
    x, y = pair
    trained = [dot for dot in panel if dot.standing in (Standing.FINISHED, Standing.INFEASIBLE)] or list(panel)
    across = [dot.x for dot in trained] + [end for row in rows for end in ends(row, x.metric)]
    up = [dot.y for dot in trained if dot.y is not None] + [end for row in rows for end in ends(row, y.metric)]
    if reference is not None:
        across, up = [*across, reference[0]], [*up, reference[1]]
    x_scale, left, right = view(across)
    y_scale, low, high = view(up)
    axes.set(xscale=x_scale, xlim=(left, right), yscale=y_scale, ylim=(low, high))
    axes.set_xlabel(axis_label(x.objective) if x.is_objective else metric_title(x.metric))
    axes.set_ylabel(axis_label(y.objective))
    for axis, largest, scale in ((axes.xaxis, right, x_scale), (axes.yaxis, high, y_scale)):
        if largest >= _THOUSANDS_FROM:
            axis.set_major_formatter("{x:,.0f}")
        elif scale == "log":
            axis.set_major_formatter("{x:g}")  # powers of ten would be TeX
        if scale == "log":
            axis.set_minor_formatter("")


def view(values: Sequence[float]) -> tuple[Literal["linear", "log"], float, float]:
    """The scale and the limits that show all values with some room; a log scale where they differ 30-fold."""
    if not values:
        return "linear", 0.0, 1.0
    low, high = min(values), max(values)
    if low > 0 and high / low > _LOG_FROM:
        room = (high / low) ** _MARGIN
        return "log", low / room, high * room
    room = _MARGIN * (high - low) or 0.1 * abs(high) or 1.0
    return "linear", low - room, high + room


def in_view(axes: Axes, x: float, y: float | None) -> bool:
    """Whether a point lies inside the panel; without *y*, whether *x* does."""
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    return left <= x <= right and (y is None or low <= y <= high)


def limits_in_view(axes: Axes, record: StudyRecord, pair: tuple[Axis, Axis]) -> dict[str, float]:
    """The limits on the panel's metrics that lie inside the panel."""
    spans = {pair[0].metric: axes.get_xlim(), pair[1].metric: axes.get_ylim()}
    return {
        metric: limit
        for metric, limit in record.limits.items()
        if metric in spans and spans[metric][0] <= limit <= spans[metric][1]
    }


def ends(row: FrontRow, metric: str) -> tuple[float, ...]:
    """Where the plan's error bar begins and ends; empty where the metric is not known."""
    value = row.value(metric)
    if value is None or not math.isfinite(value):
        return ()
    below, above = reach(row, metric)
    return value - below, value + above


def reach(row: FrontRow, metric: str) -> Point:
    """How far the plan's error bar reaches below and above its value."""
    value, interval = row.value(metric), row.interval_ms(metric)
    if value is not None and interval is not None:
        return max(0.0, value - interval[0]), max(0.0, interval[1] - value)
    deviation = row.deviation(metric) or 0.0
    return deviation, deviation
