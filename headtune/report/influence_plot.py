"""The picture of what mattered: a bar for each choice, a panel for each objective."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from headtune.report.figure_style import FAINT, INK, PLAN, Picture, house_style, new_figure, settle
from headtune.report.influence_words import influence_sentence
from headtune.report.sites_plot import site_labels
from headtune.report.wording import count, metric_name
from headtune.search import Influence
from headtune.study.record import StudyRecord

MOST_BARS = 40
"""Choices drawn at most, so that their names stay readable."""

_LONGEST = 36


@house_style()
def influence_picture(record: StudyRecord) -> Picture | None:
    """The share of each choice in each objective; ``None`` where nothing can be told of any."""
    told = [one for one in record.influences if one.shares]
    if not told:
        return None
    every = list(told[0].shares)
    names = _largest(told, every)
    figure, panels = new_figure(0.9 + len(names) * (0.3 if len(names) <= 12 else 0.2), columns=len(told))
    for axes, one in zip(panels, told, strict=True):
        _draw(axes, one, names)
        axes.set_yticks(range(len(names)), site_labels(names, _LONGEST) if axes is panels[0] else [])
    settle(figure)
    return Picture(
        figure=figure,
        name="influence",
        alt=" ".join(influence_sentence(one) for one in told),
        caption=_caption(left_out=len(every) - len(names)),
    )


def _largest(told: Sequence[Influence], names: Sequence[str]) -> list[str]:
    """The choices with the largest shares in any objective, in the model's order."""
    chosen = sorted(names, key=lambda name: -max(one.shares[name] for one in told))[:MOST_BARS]
    return [name for name in names if name in chosen]


def _draw(axes: Axes, one: Influence, names: Sequence[str]) -> None:
    percents = [100 * one.shares[name] for name in names]
    axes.barh(range(len(names)), percents, height=0.7, color=[PLAN if name in one.clear else FAINT for name in names])
    for down, (name, percent) in enumerate(zip(names, percents, strict=True)):
        if name in one.clear:
            axes.annotate(
                f"{percent:.0f} %",
                (percent, down),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=INK,
            )
    axes.set_title(metric_name(one.metric))
    axes.set_xlabel("% of all influence")
    axes.set_xlim(0, 1.15 * max(1.0, *percents))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _caption(*, left_out: int) -> str:
    said = [
        "What mattered for each objective: where the best trials chose otherwise than all did (PED-ANOVA).",
        "Grey bars are no longer than chance makes them.",
    ]
    if left_out:
        said.append(
            f"{count(left_out, 'choice')} with less influence {'is' if left_out == 1 else 'are'} left out here."
        )
    return " ".join(said)
