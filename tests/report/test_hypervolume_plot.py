from dataclasses import replace

import numpy as np
import pytest

from headtune.report.figure_style import Picture
from headtune.report.hypervolume_plot import hypervolume_picture
from headtune.report.search_front import front_hypervolume, hypervolume_growth
from headtune.report.wording import number
from headtune.study.record import StudyRecord


def draw(record: StudyRecord) -> Picture:
    picture = hypervolume_picture(record)
    assert picture is not None
    return picture


def test_the_steps_are_the_growth(record: StudyRecord) -> None:
    line = draw(record).figure.axes[0].lines[0]
    assert line.get_drawstyle() == "steps-post"
    growth = hypervolume_growth(record)
    assert list(np.asarray(line.get_xdata())) == [0, *(step.trained for step in growth)]
    assert list(np.asarray(line.get_ydata())) == [0.0, *(step.hypervolume for step in growth)]


def test_the_words_give_the_final_value_and_when_it_was_reached(record: StudyRecord) -> None:
    picture, growth = draw(record), hypervolume_growth(record)
    final = front_hypervolume(record)
    assert final is not None
    first = next(step.trained for step in growth if step.hypervolume == growth[-1].hypervolume)
    assert picture.alt == f"Hypervolume over {len(growth)} trained trials, ending at {number(final)}."
    assert picture.caption == (
        "The area between the front and the reference point, in val_accuracy × latency (ms): it grows whenever the "
        "search finds a better trade-off, and stays flat while it finds none. "
        f"It reached its final value, {number(final)}, at trained trial {first} of {len(growth)}."
    )


def test_a_search_without_a_gain_says_so(record: StudyRecord) -> None:
    caption = draw(replace(record, reference_point=(0.999, 0.1))).caption
    assert caption.endswith("It is 0: no plan on offer is better than the reference point in every objective.")


@pytest.mark.parametrize(("goals", "word"), [(1, "distance"), (2, "area")])
def test_the_measure_is_named_by_its_dimension(record: StudyRecord, goals: int, word: str) -> None:
    assert record.reference_point is not None
    fewer = replace(record, objectives=record.objectives[:goals], reference_point=record.reference_point[:goals])
    assert draw(fewer).caption.startswith(f"The {word} between")


def test_the_end_of_the_baselines_is_marked(record: StudyRecord) -> None:
    axes = draw(record).figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["baselines  |  search"]
    last = max(
        step.trained
        for step in hypervolume_growth(record)
        if next(trial for trial in record.trials if trial.number == step.number).kind == "baseline"
    )
    assert list(np.asarray(axes.lines[1].get_xdata())) == [last, last]


def test_only_baselines_need_no_mark(record: StudyRecord) -> None:
    baselines = tuple(trial for trial in record.trials if trial.kind == "baseline")
    assert list(draw(replace(record, trials=baselines)).figure.axes[0].texts) == []


def test_without_a_reference_point_or_a_trial_there_is_no_picture(record: StudyRecord) -> None:
    assert hypervolume_picture(replace(record, reference_point=None)) is None
    assert hypervolume_picture(replace(record, trials=())) is None
