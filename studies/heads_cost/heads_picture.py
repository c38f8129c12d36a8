"""The picture: overhead over heads, a row of panels for each mode and a panel for each length."""

from collections.abc import Sequence
from itertools import product
from typing import get_args

from cells import HEADS, OURS, THEIRS, WORDS, Attention, Cell, Mode, one_head_ms, picked
from matplotlib.axes import Axes

from headtune.report.figure_style import PLAN, QUIET, RECOMMENDED, Picture, house_style, new_figure, settle

ZERO = "#c3ccd6"
PUBLISHED = "#97a3b0"
LOOKS: dict[Attention | None, tuple[str, str, str]] = {
    "written out": ("o", RECOMMENDED, "softmax(QKᵀ)V written out"),
    "SDPA": ("s", PLAN, "scaled_dot_product_attention"),
    None: ("D", PUBLISHED, "a V100, published elsewhere, not ours: attention and mode not told"),
}


@house_style()
def picture(cells: Sequence[Cell]) -> Picture:
    """All the figures that were measured, and the published ones of the same lengths."""
    lengths = sorted({cell.seq_len for cell in picked(cells, source=OURS)})
    figure, axes = new_figure(5.6, rows=2, columns=len(lengths))
    for i, (mode, length) in enumerate(product(get_args(Mode), lengths)):
        panel, first = axes[i], axes[i - i % len(lengths)]
        if panel is first:
            panel.set_ylabel(f"{WORDS[mode]}:\ntime beyond one head’s")
        else:
            panel.sharey(first)
            panel.tick_params(labelleft=False)
        draw_lines(panel, [*picked(cells, source=THEIRS, seq_len=length), *picked(cells, mode=mode, seq_len=length)])
        if mode == "forward":
            panel.set_title(f"{length} positions", pad=18)
            panel.tick_params(labelbottom=False)
        else:
            panel.set_xlabel("heads")
    handles = {label: handle for handle, label in zip(*axes[0].get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    settle(figure)
    return Picture(
        figure=figure,
        name="heads_cost",
        alt="Time of one attention block with 1, 2, 4 and 8 heads of the same width, beyond that of one head.",
        caption="Medians of pairs with their 95 % intervals; each block took turns with a block of one head.",
    )


def draw_lines(panel: Axes, cells: Sequence[Cell]) -> None:
    """A line for each kind of attention, and above the panel what one head takes."""
    panel.axhline(0, color=ZERO, linewidth=1, zorder=1)
    above: object = panel.annotate(
        "one head:",
        (0, 1),
        (0, 3),
        xycoords="axes fraction",
        textcoords="offset points",
        va="bottom",
        fontsize=8,
        color=QUIET,
    )
    for attention, (marker, colour, words) in LOOKS.items():
        line = sorted(picked(cells, attention=attention), key=lambda cell: cell.heads)
        if not line:
            continue
        panel.errorbar(
            [HEADS.index(cell.heads) for cell in line],
            [cell.overhead_percent for cell in line],
            yerr=list(zip(*map(lengths_of_bar, line), strict=True)),
            label=words,
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.6,
            linestyle="--" if attention is None else "-",
            elinewidth=0 if attention is None else 1.2,
            capsize=0 if attention is None else 3,
            zorder=2 if attention is None else 3,
        )
        if attention is not None:
            above = panel.annotate(
                f"{one_head_ms(line)} ms",
                (1, 0),
                (6, 0),
                xycoords=above,  # type: ignore[arg-type]  # where the words before it end
                textcoords="offset points",
                va="bottom",
                fontsize=8,
                color=colour,
            )
    panel.set_xticks(range(len(HEADS)), [str(heads) for heads in HEADS])
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f} %".replace("-", "−") if value else "0 %")


def lengths_of_bar(cell: Cell) -> tuple[float, float]:
    """How far the interval reaches below and above; the published figures have none."""
    if cell.low_percent is None or cell.high_percent is None:
        return 0.0, 0.0
    return cell.overhead_percent - cell.low_percent, cell.high_percent - cell.overhead_percent
