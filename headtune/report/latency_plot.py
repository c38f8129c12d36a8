"""The picture of the latency range that was found before any training."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from headtune.pareto.objective import LATENCY, is_latency, length_of
from headtune.report.figure_style import FAINT, INK, PLAN, QUIET, Picture, house_style, new_figure, settle
from headtune.report.wording import baseline_words, metric_name, metric_title, number, quantity
from headtune.study.record import LatencyRange, StudyRecord


@house_style()
def latency_picture(record: StudyRecord) -> Picture | None:
    """The achievable latencies with their intervals, and the limit where one is set; ``None`` if nothing was timed."""
    if record.latency_range is None or not record.latency_range.profiles:
        return None
    ranges = record.latency_range.by_length
    figure, panels = new_figure((0.9 + 0.42 * len(record.latency_range.profiles)) * len(ranges), rows=len(ranges))
    longest = record.latency_range.length
    limits = {metric: limit for metric, limit in record.limits.items() if is_latency(metric)}
    said = [
        _draw(axes, timed, _metric(timed, several=len(ranges) > 1), _limit_at(timed.length, limits, longest))
        for axes, timed in zip(panels, ranges, strict=True)
    ]
    if any(axes.get_legend_handles_labels()[1] for axes in panels):
        figure.legend(loc="outside lower left")
    settle(figure)
    return Picture(
        figure=figure,
        name="latency",
        alt=f"{'; '.join(said)}.",
        caption=(
            "Medians with their 95 % intervals, each timed in alternation with the present counts before any training."
        ),
    )


def _metric(timed: LatencyRange, *, several: bool) -> str:
    """The metric that names the length where there are several."""
    return f"{LATENCY}@{timed.length}" if several else LATENCY


def _limit_at(length: int | None, limits: Mapping[str, float], longest: int | None) -> float | None:
    """The limit on the latency at a length, of which a bare metric names the longest."""
    return next((limit for metric, limit in limits.items() if (length_of(metric) or longest) == length), None)


def _draw(axes: Axes, timed: LatencyRange, metric: str, limit: float | None) -> str:
    """Draw one length's range; what it shows, in words."""
    names = sorted(timed.profiles, key=lambda name: timed.profiles[name].ratio)
    for down, name in enumerate(names):
        profile = timed.profiles[name]
        middle = profile.ratio * timed.reference_ms
        low, high = (bound * timed.reference_ms for bound in profile.ratio_interval)
        axes.errorbar(
            middle,
            down,
            xerr=[[max(0.0, middle - low)], [max(0.0, high - middle)]],
            fmt="s" if name == "present" else "o",
            color=INK if name == "present" else PLAN,
            markersize=7,
            elinewidth=1.4,
            capsize=3,
            zorder=3,
        )
        axes.annotate(
            quantity(metric, middle),
            (high, down),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=QUIET,
        )
    if limit is not None:
        words = f"limit: {number(limit)} ms" + ("" if metric == LATENCY else f" at length {timed.length}")
        axes.axvline(limit, color=FAINT, linewidth=1.4, linestyle=(0, (4, 3)), label=words)
    axes.set_yticks(range(len(names)), [baseline_words(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"←   {metric_title(metric)}   lower is better")
    said = [
        f"{baseline_words(name)} {quantity(metric, timed.profiles[name].ratio * timed.reference_ms)}" for name in names
    ]
    return f"{metric_name(metric).capitalize()} of the plans that span the space: {'; '.join(said)}"
