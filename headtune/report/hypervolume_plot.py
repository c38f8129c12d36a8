"""The picture of progress: the hypervolume after each trained trial."""

from matplotlib.ticker import MaxNLocator

from headtune.report.figure_style import FAINT, PLAN, QUIET, Picture, house_style, new_figure, settle
from headtune.report.search_front import Growth, hypervolume_growth
from headtune.report.wording import count, metric_title, number
from headtune.study.record import StudyRecord


@house_style()
def hypervolume_picture(record: StudyRecord) -> Picture | None:
    """The hypervolume over trials; ``None`` without a reference point or without a trained trial."""
    growth = hypervolume_growth(record)
    if not growth:
        return None
    baselines = {trial.number for trial in record.trials if trial.kind == "baseline"}
    trained = [0, *(step.trained for step in growth)]
    volumes = [0.0, *(step.hypervolume for step in growth)]
    figure, (axes,) = new_figure(3.3)
    axes.step(trained, volumes, where="post", color=PLAN, linewidth=1.8)
    axes.fill_between(trained, volumes, step="post", color=PLAN, alpha=0.07, linewidth=0)
    last = max((step.trained for step in growth if step.number in baselines), default=0)
    if 0 < last < len(growth):
        axes.axvline(last, color=FAINT, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.annotate(
            "baselines  |  search",
            (last, 1.0),
            xycoords=axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=8.5,
            color=QUIET,
        )
    axes.set_xlabel("trained trials")
    axes.set_ylabel("hypervolume")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(1, len(growth)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    settle(figure)
    return Picture(
        figure=figure,
        name="hypervolume",
        alt=f"Hypervolume over {count(len(growth), 'trained trial')}, ending at {number(growth[-1].hypervolume)}.",
        caption=_caption(record, growth),
    )


def _caption(record: StudyRecord, growth: tuple[Growth, ...]) -> str:
    unit = " × ".join(metric_title(objective.metric) for objective in record.objectives)
    final = growth[-1].hypervolume
    shape = {1: "distance", 2: "area"}.get(len(record.objectives), "volume")
    said = [
        f"The {shape} between the front and the reference point, in {unit}: it grows whenever the search finds "
        "a better trade-off, and stays flat while it finds none."
    ]
    if final > 0:
        first = next(step for step in growth if step.hypervolume == final)
        said.append(
            f"It reached its final value, {number(final)}, at trained trial {first.trained:,} of {len(growth):,}."
        )
    else:
        said.append("It is 0: no plan on offer is better than the reference point in every objective.")
    return " ".join(said)
