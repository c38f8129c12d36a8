"""The picture of the front: quality against cost, one panel for each pair of objectives."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headtune.report.figure_style import Picture, finished_picture, new_figure
from headtune.report.front_panel import draw_panel, in_view, write_letters
from headtune.report.front_points import Axis, Dot, dots, picture_axes
from headtune.report.front_rows import FrontRow
from headtune.report.search_front import front_hypervolume
from headtune.report.wording import count, listing, metric_title, number, quantity
from headtune.study.record import StudyRecord


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
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes, pair in zip(panels, pairs, strict=True):
        write_letters(axes, rows, pair)
    hidden = sum(not in_view(axes, dot) for axes, panel in zip(panels, placed, strict=True) for dot in panel)
    return finished_picture(
        figure, name="front", alt=_alt(rows, pairs), caption=" ".join(_caption(record, rows, pairs, hidden))
    )


def _draw_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend below all panels: plans first, then trials, then lines."""
    named = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower left", ncols=3, columnspacing=2.2, handletextpad=0.7)


def _alt(rows: Sequence[FrontRow], pairs: Sequence[tuple[Axis, Axis]]) -> str:
    shown = [f"{metric_title(y.metric)} against {metric_title(x.metric)}" for x, y in pairs]
    plans = [
        f"plan {row.letter} at {', '.join(quantity(axis.metric, row.value(axis.metric) or 0.0) for axis in pairs[0])}"
        for row in rows
        if all(row.value(axis.metric) is not None for axis in pairs[0])
    ]
    return f"Scatter plot of {listing(shown)}: {'; '.join(plans) or 'no plan is on the front yet'}."


def _caption(
    record: StudyRecord, rows: Sequence[FrontRow], pairs: Sequence[tuple[Axis, Axis]], hidden: int
) -> list[str]:
    said = ["Letters name the plans of the table below."]
    if any(row.verified for row in rows):
        said.append(
            "Filled marks were retrained with new seeds: vertical bars are one standard deviation over seeds, "
            "horizontal bars the 95 % interval of the latency."
        )
    if len(pairs) > 1:
        said.append("Each panel shows two objectives, so a plan on the front can look worse than another in one panel.")
    if not pairs[0][0].is_objective:
        said.append(f"{metric_title(pairs[0][0].metric)} is shown for orientation; it is no objective of this study.")
    volume = front_hypervolume(record)
    if volume is not None and record.reference_point is not None:
        point = [
            quantity(objective.metric, value)
            for objective, value in zip(record.objectives, record.reference_point, strict=True)
        ]
        said.append(f"The hypervolume of the searched front is {number(volume)}, seen from the reference point ({', '.join(point)}).")
    if hidden:
        said.append(f"{count(hidden, 'trial lies', 'trials lie')} outside the picture.")
    return said
