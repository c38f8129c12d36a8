"""One panel of the front's picture: two metrics, the trials as dots, the plans shown with their error bars."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypedDict

from matplotlib.axes import Axes

from headtune.report.figure_style import FAINT, PLAN, QUIET, RECOMMENDED, mark_of
from headtune.report.front_points import Axis, Dot, Standing
from headtune.report.front_rows import FrontRow
from headtune.report.front_view import Point, ends, frame_panel, limits_in_view, reach
from headtune.report.label_placement import Label, place_labels
from headtune.report.search_front import front_trials
from headtune.study.record import StudyRecord


class _Look(TypedDict, total=False):
    marker: str
    s: float
    color: str
    facecolor: str
    edgecolor: str
    linewidth: float


_MOST_LETTERS = 26
_DOT = "#9fb0c0"
_LOOKS: Mapping[Standing, _Look] = {
    Standing.FINISHED: {"marker": "o", "s": 26, "facecolor": _DOT, "edgecolor": "white", "linewidth": 0.6},
    Standing.STOPPED: {"marker": "x", "s": 20, "color": _DOT, "linewidth": 1.1},
    Standing.INFEASIBLE: {"marker": "v", "s": 30, "facecolor": "white", "edgecolor": QUIET, "linewidth": 0.9},
}


def draw_panel(
    axes: Axes, record: StudyRecord, rows: Sequence[FrontRow], pair: tuple[Axis, Axis], panel: Sequence[Dot]
) -> None:
    """Draw trials, front, limits and plans, the plans on top."""
    x, y = pair
    whole = x.is_objective and len(record.objectives) == 2
    reference = _reference(record, pair) if whole else None
    frame_panel(axes, rows, pair, panel, reference)
    if whole:
        _draw_front(axes, record, pair, reference)
    _draw_limits(axes, record, pair)
    for standing in Standing:
        _draw_dots(axes, standing, [dot for dot in panel if dot.standing is standing])
    for row in reversed(_by_importance(rows)):
        _draw_plan(axes, row, x.metric, y.metric)


def write_letters(axes: Axes, rows: Sequence[FrontRow], pair: tuple[Axis, Axis], panel: Sequence[Dot]) -> None:
    """Write each plan's letter beside its point; the layout must be settled."""
    x, y = pair
    obstacles = [(dot.x, dot.y) for dot in panel if dot.y is not None]
    for row in rows:
        across, up = row.value(x.metric), row.value(y.metric)
        if across is not None and up is not None:
            obstacles += [(end, up) for end in ends(row, x.metric)] + [(across, end) for end in ends(row, y.metric)]
    labels = [
        Label(text=row.letter, x=across, y=up, colour=mark_of(row).colour)
        for row in _by_importance(rows)[:_MOST_LETTERS]
        if (across := row.value(x.metric)) is not None and (up := row.value(y.metric)) is not None
    ]
    place_labels(axes, labels, obstacles)


def _by_importance(rows: Sequence[FrontRow]) -> list[FrontRow]:
    return sorted(rows, key=lambda row: (not row.recommended, not row.labels, not row.verified))


def _reference(record: StudyRecord, pair: tuple[Axis, Axis]) -> Point | None:
    if record.reference_point is None:
        return None
    at = {objective.metric: value for objective, value in zip(record.objectives, record.reference_point, strict=True)}
    return at[pair[0].metric], at[pair[1].metric]


def _draw_plan(axes: Axes, row: FrontRow, x: str, y: str) -> None:
    across, up = row.value(x), row.value(y)
    if across is None or up is None:
        return
    mark = mark_of(row)
    if row.verified:
        axes.errorbar(
            across,
            up,
            xerr=[[end] for end in reach(row, x)],
            yerr=[[end] for end in reach(row, y)],
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
        label=mark.words,
    )
    if row.recommended:
        axes.scatter([across], [up], s=250, facecolor="none", edgecolor=RECOMMENDED, linewidth=1.2, zorder=6)


def _draw_dots(axes: Axes, standing: Standing, placed: Sequence[Dot]) -> None:
    if not placed:
        return
    across = [dot.x for dot in placed]
    if standing is Standing.UNTRAINED:
        floor = [0.02] * len(placed)
        axes.scatter(across, floor, marker="|", s=55, color=QUIET, transform=axes.get_xaxis_transform(), label=standing)
        return
    up = [math.nan if dot.y is None else dot.y for dot in placed]
    axes.scatter(across, up, zorder=3, label=standing, **_LOOKS[standing])


def _draw_front(axes: Axes, record: StudyRecord, pair: tuple[Axis, Axis], reference: Point | None) -> None:
    """The staircase of the searched front, and the area between it and the reference point."""
    x, y = pair
    corners = sorted(
        {(trial.metrics[x.metric], trial.metrics[y.metric]) for trial in front_trials(record)},
        key=lambda corner: x.objective.loss(corner[0]),
    )
    if not corners:
        return
    steps = [corners[0]]
    for before, corner in pairwise(corners):
        steps += [(corner[0], before[1]), corner]
    axes.plot(*zip(*steps, strict=True), color=PLAN, linewidth=1.2, alpha=0.55, zorder=2, label="front, as searched")
    inside = [] if reference is None else [step for step in steps if _beats(step, reference, pair)]
    if reference is None or not inside:
        return
    area = [(inside[0][0], reference[1]), *inside, (reference[0], inside[-1][1]), reference]
    axes.fill(*zip(*area, strict=True), color=PLAN, alpha=0.06, linewidth=0, zorder=1, label="hypervolume")
    axes.scatter(*reference, marker="+", s=60, color=QUIET, linewidth=1.2, zorder=2, label="reference point")


def _beats(step: Point, reference: Point, pair: tuple[Axis, Axis]) -> bool:
    return all(axis.objective.better(at, worst) for axis, at, worst in zip(pair, step, reference, strict=True))


def _draw_limits(axes: Axes, record: StudyRecord, pair: tuple[Axis, Axis]) -> None:
    limits = limits_in_view(axes, record, pair)
    for axis, draw in zip(pair, (axes.axvline, axes.axhline), strict=True):
        if axis.metric in limits:
            draw(limits[axis.metric], color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1, label="limit")
