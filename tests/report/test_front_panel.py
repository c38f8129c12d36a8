from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.patches import Polygon

from headtune.pareto import Objective
from headtune.report.figure_style import RECOMMENDED, house_style, new_figure
from headtune.report.front_panel import draw_panel, write_letters
from headtune.report.front_points import Standing, dots, picture_axes
from headtune.report.front_rows import front_table
from headtune.report.search_front import front_hypervolume
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]


def panel_of(record: StudyRecord) -> Axes:
    with house_style():
        _, (axes,) = new_figure(4.0)
        pair = picture_axes(record)[0]
        draw_panel(axes, record, front_table(record), pair, dots(record, *pair))
    return axes


def drawn(axes: Axes, label: str) -> set[tuple[float, float]]:
    """The points that the legend calls *label*."""
    found = [one for one in axes.collections if isinstance(one, PathCollection) and one.get_label() == label]
    return {(float(x), float(y)) for one in found for x, y in np.asarray(one.get_offsets())}


def points(record: StudyRecord, outcome: Outcome, feasible: bool) -> set[tuple[float, float]]:
    return {
        (trial.metrics["latency_ms"], trial.metrics["val_accuracy"])
        for trial in record.trials
        if trial.outcome is outcome and trial.feasible is feasible
    }


def test_every_finished_trial_is_drawn_where_it_was_measured(record: StudyRecord) -> None:
    axes = panel_of(record)
    assert drawn(axes, Standing.FINISHED) == points(record, Outcome.OK, True)
    assert drawn(axes, Standing.INFEASIBLE) == points(record, Outcome.OK, False)


def test_stopped_and_untrained_trials_look_different(record: StudyRecord) -> None:
    axes = panel_of(record)
    stopped = [trial for trial in record.trials if trial.outcome is Outcome.STOPPED]
    assert drawn(axes, Standing.STOPPED) == {(t.metrics["latency_ms"], t.curve[-1][1]) for t in stopped}
    untrained = [trial for trial in record.trials if trial.outcome is Outcome.INFEASIBLE]
    assert {x for x, _ in drawn(axes, Standing.UNTRAINED)} == {t.metrics["latency_ms"] for t in untrained}
    assert stopped
    assert untrained


def test_finalists_are_drawn_at_their_means_with_bars(record: StudyRecord) -> None:
    axes = panel_of(record)
    means = {
        (finalist.measured["latency_ms"], float(np.mean(finalist.quality["val_accuracy"])))
        for finalist in record.finalists
    }
    shown = {point for words in ("finalist", "rule of thumb") for point in drawn(axes, words)}
    shown |= drawn(axes, "recommended: the present counts")
    assert np.array(sorted(shown)) == pytest.approx(np.array(sorted(means)), rel=1e-12)
    assert len(axes.containers) == len(record.finalists)


def test_only_the_recommended_plan_has_the_accent(record: StudyRecord) -> None:
    labels = {
        one.get_label()
        for one in panel_of(record).collections
        if isinstance(one, PathCollection) and "#d55e00" in map(_hex, one.get_facecolor())
    }
    assert labels == {"recommended: the present counts"}
    assert RECOMMENDED == "#d55e00"


def _hex(colour: np.ndarray) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour[:3])


def test_the_shaded_area_is_the_hypervolume(record: StudyRecord) -> None:
    (area,) = [patch for patch in panel_of(record).patches if isinstance(patch, Polygon)]
    x, y = np.asarray(area.get_xy())[:-1].T
    shoelace = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    assert shoelace == pytest.approx(front_hypervolume(record), rel=1e-9)


def test_points_beyond_the_reference_add_no_area(record: StudyRecord) -> None:
    near = replace(record, reference_point=(0.93, 2.6))
    (area,) = [patch for patch in panel_of(near).patches if isinstance(patch, Polygon)]
    x, y = np.asarray(area.get_xy())[:-1].T
    shoelace = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    assert shoelace == pytest.approx(front_hypervolume(near), rel=1e-9)


def test_a_front_behind_the_reference_has_no_area(record: StudyRecord) -> None:
    axes = panel_of(replace(record, reference_point=(0.99, 0.1)))
    assert [patch for patch in axes.patches if isinstance(patch, Polygon)] == []


def test_three_objectives_have_no_staircase(make_record: MakeRecord) -> None:
    goals = [("val_accuracy", "maximize"), ("latency_ms", "minimize"), ("parameters", "minimize")]
    record = make_record(objectives=tuple(Objective(metric=m, direction=d) for m, d in goals))  # type: ignore[arg-type]
    assert "front, as searched" not in panel_of(record).get_legend_handles_labels()[1]


def test_a_limit_inside_is_a_line(record: StudyRecord) -> None:
    assert "limit" in panel_of(record).get_legend_handles_labels()[1]
    assert "limit" not in panel_of(replace(record, limits={"latency_ms": 99.0})).get_legend_handles_labels()[1]


def test_each_plan_gets_its_letter(record: StudyRecord) -> None:
    axes, rows, pair = panel_of(record), front_table(record), picture_axes(record)[0]
    write_letters(axes, rows, pair, dots(record, *pair))
    assert sorted(text.get_text() for text in axes.texts) == [row.letter for row in rows]
