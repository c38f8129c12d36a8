"""The picture of learning: the first quality objective at each report of each trial."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from headtune.report.figure_style import Picture, house_style, mark_of, new_figure, settle
from headtune.report.front_points import quality_objective
from headtune.report.front_rows import FrontRow
from headtune.report.wording import axis_label, count
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_QUIET_LINE = "#b7c2cd"

_LINES = 300
"""Lines of plans without a colour that an eye can make something of."""


@house_style()
def curves_picture(record: StudyRecord, rows: Sequence[FrontRow]) -> Picture | None:
    """Learning curves, those of the named plans in colour; ``None`` where no quality was ever reported."""
    objective = quality_objective(record)
    trials = [trial for trial in (*record.trials, *record.verify_trials) if _finite(trial)]
    if objective is None or not trials:
        return None
    named = {row.plan: row for row in reversed(rows) if row.recommended or {"present", "rule"} & set(row.labels)}
    others = [trial for trial in trials if trial.plan not in named]
    nth = math.ceil(len(others) / _LINES)
    drawn = [*(trial for trial in trials if trial.plan in named), *others[:: nth or 1]]
    figure, (axes,) = new_figure(4.4)
    for trial in sorted(drawn, key=lambda trial: _depth(named.get(trial.plan))):
        _draw(axes, trial, named.get(trial.plan))
    axes.set_xlabel("report of the training function")
    axes.set_ylabel(axis_label(objective))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _draw_legend(figure, drawn, list(named.values()))
    settle(figure)
    return Picture(
        figure=figure,
        name="curves",
        alt=f"Learning curves of {count(len(drawn), 'training')}: {objective.metric} at each report.",
        caption=_caption(drawn, bool(named), nth),
    )


def _depth(row: FrontRow | None) -> int:
    """The recommended plan is drawn last, on top."""
    return 0 if row is None else 1 + row.recommended


def _finite(trial: TrialRecord) -> bool:
    return any(math.isfinite(value) for _, value in trial.curve)


def _draw(axes: Axes, trial: TrialRecord, row: FrontRow | None) -> None:
    steps, values = zip(*trial.curve, strict=True)
    colour = _QUIET_LINE if row is None else mark_of(row).colour
    shown = [value if math.isfinite(value) else math.nan for value in values]
    alone = "." if len(shown) == 1 else ""
    width, depth = (0.9, 2) if row is None else (1.3, 3)
    axes.plot(steps, shown, color=colour, linewidth=width, marker=alone, zorder=depth)
    if trial.outcome is Outcome.STOPPED:
        axes.plot(steps[-1:], shown[-1:], color=colour, marker="x", markersize=5, zorder=4)


def _draw_legend(figure: Figure, trials: Sequence[TrialRecord], named: Sequence[FrontRow]) -> None:
    drawn = {trial.plan for trial in trials}
    last_first = sorted(named, key=_depth, reverse=True)
    marks = {mark_of(row).words: mark_of(row).colour for row in last_first if row.plan in drawn}
    handles = [Line2D([], [], color=colour, linewidth=1.8, label=words) for words, colour in marks.items()]
    handles.append(Line2D([], [], color=_QUIET_LINE, linewidth=1.2, label="other trials" if named else "trials"))
    if any(trial.outcome is Outcome.STOPPED for trial in trials):
        handles.append(Line2D([], [], color=_QUIET_LINE, marker="x", linestyle="", label="stopped early here"))
    figure.legend(handles=handles, loc="outside lower left", ncols=3, columnspacing=2.2, handletextpad=0.7)


def _caption(trials: Sequence[TrialRecord], named: bool, nth: int) -> str:
    said = ["One line a training; equal plans have equal colours."] if named else ["One line a training."]
    retrained = sum(trial.kind == "verify" for trial in trials)
    if retrained:
        said.append(f"{count(retrained, 'line is', 'lines are')} the finalists' retraining with new seeds.")
    if nth > 1:
        said.append(f"Of the grey ones, one of each {nth} is drawn.")
    return " ".join(said)
