"""The picture of the latency range that was found before any training."""

from headtune.report.figure_style import FAINT, INK, PLAN, QUIET, Picture, house_style, new_figure, settle
from headtune.report.wording import baseline_words, metric_title, number, quantity
from headtune.study.record import StudyRecord


@house_style()
def latency_picture(record: StudyRecord) -> Picture | None:
    """The achievable latencies with their intervals, and the limit where one is set; ``None`` if nothing was timed."""
    timed = record.latency_range
    if timed is None or not timed.profiles:
        return None
    names = sorted(timed.profiles, key=lambda name: timed.profiles[name].ratio)
    figure, (axes,) = new_figure(0.9 + 0.42 * len(names))
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
            quantity("latency_ms", middle),
            (high, down),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=QUIET,
        )
    limit = record.limits.get("latency_ms")
    if limit is not None:
        axes.axvline(limit, color=FAINT, linewidth=1.4, linestyle=(0, (4, 3)), label=f"limit: {number(limit)} ms")
        figure.legend(loc="outside lower left")
    axes.set_yticks(range(len(names)), [baseline_words(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"←   {metric_title('latency_ms')}   lower is better")
    said = [
        f"{baseline_words(name)} {quantity('latency_ms', timed.profiles[name].ratio * timed.reference_ms)}"
        for name in names
    ]
    settle(figure)
    return Picture(
        figure=figure,
        name="latency",
        alt=f"Latency of the plans that span the space: {'; '.join(said)}.",
        caption=(
            "Medians with their 95 % intervals, each timed in alternation with the present counts before any training."
        ),
    )
