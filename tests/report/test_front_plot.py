from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from matplotlib.text import Text
from matplotlib.transforms import Bbox

from headtune.pareto import Objective
from headtune.report.figure_style import Picture
from headtune.report.front_plot import front_picture
from headtune.report.front_rows import front_table
from headtune.report.search_front import front_hypervolume
from headtune.report.wording import number
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]


def draw(record: StudyRecord) -> Picture:
    picture = front_picture(record, front_table(record))
    assert picture is not None
    return picture


def test_the_legend_names_plans_before_trials_before_lines(record: StudyRecord) -> None:
    (legend,) = draw(record).figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[0] == "recommended: the present counts"
    assert words.index("rule of thumb") < words.index("trained to the end, one seed") < words.index("hypervolume")
    assert len(set(words)) == len(words)


def test_the_caption_states_hypervolume_and_reference_point(record: StudyRecord) -> None:
    volume = front_hypervolume(record)
    assert volume is not None
    assert record.reference_point is not None
    quality, latency = record.reference_point
    assert (
        f"The hypervolume of the searched front is {number(volume)}, "
        f"seen from the reference point ({quality:.4f}, {latency:.3f} ms)."
    ) in draw(record).caption


def test_the_caption_explains_the_bars_only_where_there_are_some(make_record: MakeRecord) -> None:
    assert "one standard deviation over seeds, or the 95 % interval of the latency." in draw(make_record()).caption
    assert "standard deviation" not in draw(make_record(verified=False)).caption


def test_what_lies_outside_is_said(record: StudyRecord) -> None:
    low = replace(record.trials[4], outcome=Outcome.STOPPED, metrics={"latency_ms": 2.3}, curve=((1, 0.1),))
    others = [trial for trial in record.trials if trial.outcome is Outcome.OK and trial.number != low.number]
    few = replace(record, trials=(*others, low), limits={"latency_ms": 1.0})
    caption = draw(few).caption
    assert "1 trial lies outside the picture." in caption
    assert "The limit of 1 ms lies outside the picture." in caption


def test_one_objective_says_what_the_other_axis_is(make_record: MakeRecord) -> None:
    record = make_record(objectives=(Objective(metric="val_accuracy", direction="maximize"),), limit_ms=None)
    assert (
        "The horizontal axis, parameters, is there for orientation: it is no objective of this study."
        in draw(record).caption
    )


def test_three_objectives_have_two_panels(make_record: MakeRecord) -> None:
    goals = [("val_accuracy", "maximize"), ("latency_ms", "minimize"), ("parameters", "minimize")]
    record = make_record(objectives=tuple(Objective(metric=m, direction=d) for m, d in goals))  # type: ignore[arg-type]
    picture = draw(record)
    assert len(picture.figure.axes) == 2
    assert "Each panel shows two objectives" in picture.caption


def test_the_alternative_text_tells_each_plans_values(record: StudyRecord) -> None:
    picture = draw(record)
    row = front_table(record)[0]
    assert picture.alt.startswith("Scatter plot of val_accuracy against latency (ms): plan A at ")
    assert f"plan A at {row.value('latency_ms'):.3f} ms, {row.value('val_accuracy'):.4f};" in picture.alt


def test_letters_do_not_overlap(make_record: MakeRecord) -> None:
    for seed in range(4):
        figure = draw(make_record(seed=seed, trials=40)).figure
        figure.draw_without_rendering()
        boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]
        assert not any(a.overlaps(b) and Bbox.intersection(a, b) is not None for a, b in combinations(boxes, 2))


def test_it_is_not_drawn_before_a_quality_is_known(record: StudyRecord) -> None:
    assert front_picture(replace(record, trials=(), finalists=()), ()) is None
    untrained = tuple(trial for trial in record.trials if trial.outcome is Outcome.INFEASIBLE)
    assert untrained
    assert front_picture(replace(record, trials=untrained, finalists=()), ()) is None
