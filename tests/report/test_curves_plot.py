from collections.abc import Callable
from dataclasses import replace

import numpy as np

from headtune.report.curves_plot import curves_picture
from headtune.report.figure_style import PRESENT, RECOMMENDED, RULE, Picture
from headtune.report.front_rows import front_table
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]


def draw(record: StudyRecord) -> Picture:
    picture = curves_picture(record, front_table(record))
    assert picture is not None
    return picture


def lines(picture: Picture) -> list[tuple[tuple[int, float], ...]]:
    """The drawn curves; the crosses at the end of stopped ones are no curves."""
    drawn = [line for line in picture.figure.axes[0].lines if line.get_marker() != "x"]
    return [
        tuple(
            (int(x), float(y)) for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
        )
        for line in drawn
    ]


def test_every_curve_is_drawn_as_reported(record: StudyRecord) -> None:
    curves = [trial.curve for trial in (*record.trials, *record.verify_trials) if trial.curve]
    assert sorted(lines(draw(record))) == sorted(curves)


def test_stopped_trials_end_with_a_cross(record: StudyRecord) -> None:
    crosses = [line for line in draw(record).figure.axes[0].lines if line.get_marker() == "x"]
    stopped = [trial for trial in record.trials if trial.outcome is Outcome.STOPPED]
    assert sorted(float(np.asarray(cross.get_ydata())[0]) for cross in crosses) == sorted(
        trial.curve[-1][1] for trial in stopped
    )


def test_named_plans_have_their_colours(make_record: MakeRecord) -> None:
    record = make_record(present_heads=16, seed=5, trials=40, limit_ms=2.9)
    picture = draw(record)
    shown = [line.get_color() for line in picture.figure.axes[0].lines]
    assert {RECOMMENDED, PRESENT, RULE} <= set(shown)
    assert shown[-1] == RECOMMENDED
    (legend,) = picture.figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[0] == "recommended"
    assert sorted(words[1:3]) == ["present counts", "rule of thumb"]
    assert words[3:] == ["other trials", "stopped early here"]


def test_a_value_that_is_not_finite_breaks_the_line(record: StudyRecord) -> None:
    odd = replace(record.trials[0], curve=((1, 0.5), (2, float("inf")), (3, 0.7)))
    (line,) = lines(draw(replace(record, trials=(odd,), verify_trials=(), finalists=(), verdict=None)))
    assert np.isnan(line[1][1])
    assert (line[0], line[2]) == ((1, 0.5), (3, 0.7))


def test_a_curve_of_one_report_is_a_dot(record: StudyRecord) -> None:
    short = replace(record.trials[0], curve=((1, 0.5),))
    picture = draw(replace(record, trials=(short,), verify_trials=()))
    assert [line.get_marker() for line in picture.figure.axes[0].lines] == ["."]


def test_without_a_reported_quality_there_is_no_picture(record: StudyRecord) -> None:
    silent = tuple(replace(trial, curve=()) for trial in record.trials)
    assert curves_picture(replace(record, trials=silent, verify_trials=()), ()) is None
    lost = tuple(replace(trial, curve=((1, float("nan")),)) for trial in record.trials)
    assert curves_picture(replace(record, trials=lost, verify_trials=()), ()) is None
    measured = tuple(goal for goal in record.objectives if goal.measured)
    assert curves_picture(replace(record, objectives=measured), ()) is None


def test_words_tell_how_many_trainings_there_are(record: StudyRecord) -> None:
    picture = draw(record)
    curves = [trial for trial in (*record.trials, *record.verify_trials) if trial.curve]
    assert picture.alt == f"Learning curves of {len(curves)} trainings: val_accuracy at each report."
    assert picture.caption == (
        "One line a training; equal plans have equal colours. "
        f"{len(record.verify_trials)} lines are the finalists' retraining with new seeds."
    )


def test_the_axis_says_which_way_is_better(record: StudyRecord) -> None:
    (axes,) = draw(record).figure.axes
    assert axes.get_ylabel() == "val_accuracy   higher is better →"
    assert axes.get_xlabel() == "report of the training function"


def test_of_very_many_curves_some_are_drawn_and_all_with_a_colour(make_record: MakeRecord) -> None:
    record = make_record(present_heads=16, seed=5, trials=40, limit_ms=2.9)
    grey = next(trial for trial in record.trials if trial.curve and trial.kind == "search")
    many = [replace(grey, number=1000 + at) for at in range(1000)]
    picture, before = draw(replace(record, trials=(*record.trials, *many))), draw(record)
    assert 200 < len(lines(picture)) < 400
    assert "Of the grey ones, one of each 4 is drawn." in picture.caption
    assert "Of the grey ones" not in before.caption
    coloured = [
        sum(line.get_color() in (RECOMMENDED, PRESENT, RULE) for line in one.figure.axes[0].lines)
        for one in (before, picture)
    ]
    assert coloured[0] == coloured[1]
