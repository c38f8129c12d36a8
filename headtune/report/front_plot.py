"""The picture of the front: quality against cost, one panel for each pair of objectives."""

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headtune.pareto.objective import is_latency
from headtune.report.figure_style import Picture, house_style, new_figure, settle
from headtune.report.front_panel import draw_panel, write_letters
from headtune.report.front_points import Axis, Dot, Standing, dots, picture_axes
from headtune.report.front_rows import FrontRow
from headtune.report.front_view import in_view, limits_in_view
from headtune.report.search_front import front_hypervolume
from headtune.report.wording import count, listing, metric_title, number, quantity
from headtune.study.record import StudyRecord

_LEGEND = (*Standing, "front, as searched", "hypervolume", "reference point", "limit")


@house_style()
def front_picture(record: StudyRecord, rows: Sequence[FrontRow]) -> Picture | None:
    """The trials, the front and the plans shown; ``None`` while no plan has a quality."""
    pairs = picture_axes(record)
    placed = [dots(record, *pair) for pair in pairs]
    if not any(dot.y is not None for panel in placed for dot in panel):
        return None
    figure, panels = new_figure(4.6 * len(pairs) + 0.6, rows=len(pairs))
    for axes, pair, panel in zip(panels, pairs, placed, strict=True):
        draw_panel(axes, record, rows, pair, panel)
    _draw_legend(figure, panels)
    settle(figure)
    for axes, pair, panel in zip(panels, pairs, placed, strict=True):
        write_letters(axes, rows, pair, panel)
    caption = [*_caption(record, rows, pairs), *_outside(record, panels, pairs, placed)]
    return Picture(figure=figure, name="front", alt=_alt(rows, pairs), caption=" ".join(caption))


def _draw_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend below all panels: plans first, then trials, then lines."""
    named: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    plans = [words for words in reversed(named) if words not in _LEGEND]
    order = [*plans, *(words for words in _LEGEND if words in named)]
    handles = [named[words] for words in order]
    figure.legend(handles, order, loc="outside lower left", ncols=3, columnspacing=2.2, handletextpad=0.7)


def _alt(rows: Sequence[FrontRow], pairs: Sequence[tuple[Axis, Axis]]) -> str:
    shown = [f"{metric_title(y.metric)} against {metric_title(x.metric)}" for x, y in pairs]
    plans = [
        f"plan {row.letter} at {', '.join(quantity(axis.metric, row.value(axis.metric) or 0.0) for axis in pairs[0])}"
        for row in rows
        if all(row.value(axis.metric) is not None for axis in pairs[0])
    ]
    return f"Scatter plot of {listing(shown)}: {'; '.join(plans) or 'no plan is on the front yet'}."


def _caption(record: StudyRecord, rows: Sequence[FrontRow], pairs: Sequence[tuple[Axis, Axis]]) -> list[str]:
    said = ["Letters name the plans of the table below."] if rows else []
    if any(row.verified for row in rows):
        how = "retrained with new seeds" if record.verify_trials else "timed again"
        said.append(f"Filled marks were {how}; their bars are one standard deviation over seeds")
        timed = any(is_latency(axis.metric) for pair in pairs for axis in pair)
        said[-1] += ", or the 95 % interval of the latency." if timed else "."
        if record.verify_trials:
            said.append("Dots and the front are single trainings with the search's seed; verified plans may miss it.")
    if len(pairs) > 1:
        said.append("Each panel shows two objectives, so a plan on the front can look worse than another in one panel.")
    if not pairs[0][0].is_objective:
        name = metric_title(pairs[0][0].metric)
        said.append(f"The horizontal axis, {name}, is there for orientation: it is no objective of this study.")
    volume = front_hypervolume(record)
    if volume is not None and record.reference_point is not None:
        point = [
            quantity(objective.metric, value)
            for objective, value in zip(record.objectives, record.reference_point, strict=True)
        ]
        said.append(
            f"The hypervolume of the searched front is {number(volume)}, "
            f"seen from the reference point ({', '.join(point)})."
        )
    return said


def _outside(
    record: StudyRecord, panels: Sequence[Axes], pairs: Sequence[tuple[Axis, Axis]], placed: Sequence[Sequence[Dot]]
) -> list[str]:
    """What has no place in the picture: limits and trials far from all trained plans."""
    said = []
    for axes, pair in zip(panels, pairs, strict=True):
        for metric in {axis.metric for axis in pair} & (record.limits.keys() - limits_in_view(axes, record, pair)):
            said.append(f"The limit of {quantity(metric, record.limits[metric])} lies outside the picture.")
    hidden = {
        dot.number
        for axes, panel in zip(panels, placed, strict=True)
        for dot in panel
        if not in_view(axes, dot.x, dot.y)
    }
    if hidden:
        said.append(f"{count(len(hidden), 'trial lies', 'trials lie')} outside the picture.")
    return said
