"""The picture of a pruning: quality and latency against the heads that are left."""

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from headtune.pareto import Objective
from headtune.report.figure_style import FAINT, INK, PLAN, RECOMMENDED, Picture, house_style, new_figure, settle
from headtune.report.wording import axis_label, count
from headtune.trial.pruning_job import Pruned
from headtune.trial.shrinking import PrunePoint


@house_style()
def pruning_picture(found: Pruned, quality: Objective) -> Picture:
    """The curve, the whole model at the left, with what was chosen."""
    heads = [point.heads for point in found.points]
    values = [point.quality[quality.metric] for point in found.points]
    figure, (upper, lower) = new_figure(4.6, rows=2)
    upper.plot(heads, values, color=PLAN, marker="o", markersize=4, linewidth=1.6)
    upper.set_ylabel(axis_label(quality))
    timed = [(point.heads, point.latency) for point in found.points if point.latency is not None]
    ratios = [latency.ratio for _, latency in timed]
    lows, highs = ([latency.ratio_interval[end] for _, latency in timed] for end in (0, 1))
    lower.axhline(1.0, color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)))
    lower.fill_between([at for at, _ in timed], lows, highs, color=PLAN, alpha=0.15, linewidth=0)
    lower.plot([at for at, _ in timed], ratios, color=PLAN, marker="o", markersize=4, linewidth=1.6)
    lower.set_ylabel("←   latency, × whole")
    lower.set_xlabel("heads left")
    for axes in (upper, lower):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(max(heads) + 0.5, min(heads) - 0.5)
    if found.chosen is not None:
        _mark(upper, found.chosen, found.chosen.quality[quality.metric])
        if found.chosen.latency is not None:
            _mark(lower, found.chosen, found.chosen.latency.ratio)
    settle(figure)
    return Picture(
        figure=figure,
        name="pruning",
        alt=f"{quality.metric} and latency of {count(len(found.points), 'model')} with ever fewer heads.",
        caption="At each step heads go, what is left is trained on where asked, judged, and timed beside the whole "
        "model; the band is the 95 % interval of the latency.",
    )


def _mark(axes: Axes, point: PrunePoint, value: float) -> None:
    axes.plot([point.heads], [value], marker="o", markersize=8, color=RECOMMENDED, zorder=4)
    axes.annotate("chosen", (point.heads, value), xytext=(6, 6), textcoords="offset points", fontsize=8.5, color=INK)
