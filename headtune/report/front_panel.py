"""One panel of the front's picture: two metrics, the trials as dots, the plans shown with their error bars."""

import math
from collections.abc import Callable, Iterable, Sequence

from matplotlib.axes import Axes

from headtune.report.figure_style import FAINT, PLAN, QUIET, RECOMMENDED, mark_of
from headtune.report.front_points import Axis, Dot, Standing
from headtune.report.front_rows import FrontRow
from headtune.report.label_placement import Label, place_labels
from headtune.report.search_front import front_trials
from headtune.report.wording import axis_label, metric_title
from headtune.study.record import StudyRecord

_LOG_FROM = 30.0
_DOT = "#9fb0c0"
_MARGIN = 0.07


def draw_panel(
    axes: Axes, record: StudyRecord, rows: Sequence[FrontRow], pair: tuple[Axis, Axis], panel: Sequence[Dot]
) -> None:
    """Draw trials, front, limits and plans, the plans on top."""
    x, y = pair
    _frame(axes, rows, pair, panel)
    if x.is_objective and len(record.objectives) == 2:
        _draw_front(axes, record, pair)
    _draw_limits(axes, record, pair)
    for standing in Standing:
        _draw_dots(axes, standing, [dot for dot in panel if dot.standing is standing])
    for row in reversed(_by_importance(rows)):
        _draw_plan(axes, row, x.metric, y.metric)


def write_letters(axes: Axes, rows: Sequence[FrontRow], pair: tuple[Axis, Axis]) -> None:
    """Write each plan's letter beside its point; the layout must be settled."""
    x, y = pair
    labels = [
        Label(text=row.letter, x=across, y=up, colour=mark_of(row).colour)
        for row in _by_importance(rows)
        if (across := row.value(x.metric)) is not None and (up := row.value(y.metric)) is not None
    ]
    place_labels(axes, labels)


def in_view(axes: Axes, dot: Dot) -> bool:
    """Whether the dot lies inside the panel."""
    left, right = sorted(axes.get_xlim())
    low, high = sorted(axes.get_ylim())
    return left <= dot.x <= right and (dot.y is None or low <= dot.y <= high)


def _by_importance(rows: Sequence[FrontRow]) -> list[FrontRow]:
    return sorted(rows, key=lambda row: (not row.recommended, not row.labels, not row.verified))


def _frame(axes: Axes, rows: Sequence[FrontRow], pair: tuple[Axis, Axis], panel: Sequence[Dot]) -> None:
    x, y = pair
    trained = [dot for dot in panel if dot.standing in (Standing.FINISHED, Standing.INFEASIBLE)] or list(panel)
    across = [dot.x for dot in trained] + [end for row in rows for end in _ends(row, x.metric)]
    up = [dot.y for dot in trained if dot.y is not None] + [end for row in rows for end in _ends(row, y.metric)]
    _limit(across, axes.set_xlim, axes.set_xscale)
    _limit(up, axes.set_ylim, axes.set_yscale)
    axes.set_xlabel(axis_label(x.objective) if x.is_objective else metric_title(x.metric))
    axes.set_ylabel(axis_label(y.objective))


def _limit(values: Iterable[float], set_limits: Callable[[float, float], object], set_scale: Callable[[str], object]) -> None:
    values = list(values)
    if not values:
        return
    low, high = min(values), max(values)
    if low > 0 and high / low > _LOG_FROM:
        set_scale("log")
        room = (high / low) ** _MARGIN
        set_limits(low / room, high * room)
    else:
        room = _MARGIN * (high - low) or 0.1 * abs(high) or 1.0
        set_limits(low - room, high + room)


def _ends(row: FrontRow, metric: str) -> tuple[float, ...]:
    value = row.value(metric)
    if value is None or not math.isfinite(value):
        return ()
    below, above = _error(row, metric)
    return value - below, value + above


def _error(row: FrontRow, metric: str) -> tuple[float, float]:
    """How far the error bar of a verified plan reaches below and above its value."""
    value, interval = row.value(metric), row.latency_interval_ms
    if metric == "latency_ms" and value is not None and interval is not None:
        return max(0.0, value - interval[0]), max(0.0, interval[1] - value)
    deviation = row.deviation(metric) or 0.0
    return deviation, deviation


def _draw_plan(axes: Axes, row: FrontRow, x: str, y: str) -> None:
    across, up = row.value(x), row.value(y)
    if across is None or up is None:
        return
    mark = mark_of(row)
    if row.verified:
        axes.errorbar(
            across,
            up,
            xerr=[[end] for end in _error(row, x)],
            yerr=[[end] for end in _error(row, y)],
            fmt="none",
            ecolor=mark.colour,
            elinewidth=1.1,
            capsize=2.5,
            alpha=0.75,
            zorder=5,
        )
    axes.scatter(
        [across],
        [up],
        marker=mark.shape,
        s=110 if row.recommended else 48,
        facecolor=mark.colour if row.verified else "white",
        edgecolor="white" if row.verified else mark.colour,
        linewidth=1.0 if row.verified else 1.4,
        zorder=6,
        label=mark.words if row.verified else f"{mark.words}, one seed",
    )
    if row.recommended:
        axes.scatter([across], [up], s=250, facecolor="none", edgecolor=RECOMMENDED, linewidth=1.2, zorder=6)


def _draw_dots(axes: Axes, standing: Standing, placed: Sequence[Dot]) -> None:
    if not placed:
        return
    across = [dot.x for dot in placed]
    if standing is Standing.UNTRAINED:
        floor = axes.get_xaxis_transform()
        axes.scatter(across, [0.02] * len(placed), marker="|", s=55, color=QUIET, transform=floor, label=standing)
        return
    up = [math.nan if dot.y is None else dot.y for dot in placed]
    match standing:
        case Standing.FINISHED:
            axes.scatter(across, up, s=26, facecolor=_DOT, edgecolor="white", linewidth=0.6, zorder=3, label=standing)
        case Standing.STOPPED:
            axes.scatter(across, up, marker="x", s=20, color=_DOT, linewidth=1.1, zorder=3, label=standing)
        case _:
            axes.scatter(
                across, up, marker="v", s=30, facecolor="white", edgecolor=QUIET, linewidth=0.9, zorder=3, label=standing
            )


def _draw_front(axes: Axes, record: StudyRecord, pair: tuple[Axis, Axis]) -> None:
    """The staircase of the searched front, and the area between it and the reference point."""
    x, y = pair
    corners = sorted(
        {(trial.metrics[x.metric], trial.metrics[y.metric]) for trial in front_trials(record)},
        key=lambda corner: x.objective.loss(corner[0]),
    )
    if not corners:
        return
    steps = [corners[0]]
    for before, corner in zip(corners, corners[1:], strict=False):
        steps += [(corner[0], before[1]), corner]
    axes.plot(*zip(*steps, strict=True), color=PLAN, linewidth=1.2, alpha=0.55, zorder=2, label="front, as searched")
    if record.reference_point is None:
        return
    at = {objective.metric: value for objective, value in zip(record.objectives, record.reference_point, strict=True)}
    worst = at[x.metric], at[y.metric]
    area = [(corners[0][0], worst[1]), *steps, (worst[0], corners[-1][1]), worst]
    axes.fill(*zip(*area, strict=True), color=PLAN, alpha=0.06, linewidth=0, zorder=1, label="hypervolume")
    axes.scatter([worst[0]], [worst[1]], marker="+", s=60, color=QUIET, linewidth=1.2, zorder=2, label="reference point")


def _draw_limits(axes: Axes, record: StudyRecord, pair: tuple[Axis, Axis]) -> None:
    for axis, draw in zip(pair, (axes.axvline, axes.axhline), strict=True):
        if axis.metric in record.limits:
            draw(record.limits[axis.metric], color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1, label="limit")
