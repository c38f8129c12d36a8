from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import matplotlib as mpl
from PIL import Image

from headtune.report.figure_style import DPI, WIDTH_IN, Picture, house_style, mark_of, new_figure, settle
from headtune.report.front_rows import front_table
from headtune.study.record import StudyRecord

MakeRecord = Callable[..., StudyRecord]


def picture() -> Picture:
    with house_style():
        figure, (axes,) = new_figure(2.0)
        axes.plot([1, 2], [3, 4])
        axes.set_title("cost in $ and $ again \\frac{")
    return Picture(name="p", alt="a line", caption="A line.", figure=figure)


def test_the_style_leaves_no_trace() -> None:
    before = dict(mpl.rcParams)
    with house_style():
        assert mpl.rcParams["axes.spines.top"] is False
    assert dict(mpl.rcParams) == before


def test_the_style_owes_nothing_to_the_persons_own() -> None:
    plain = picture().svg()
    with mpl.rc_context({"lines.linewidth": 9, "axes.facecolor": "red", "font.size": 30}):
        assert picture().svg() == plain


def test_pixels_are_as_many_as_the_width_asks() -> None:
    image = Image.open(BytesIO(picture().png()))
    assert image.size == (round(WIDTH_IN * DPI), 2 * DPI)
    assert DPI >= 150


def test_the_same_picture_has_the_same_bytes() -> None:
    assert (picture().svg(), picture().png()) == (picture().svg(), picture().png())


def test_a_settled_figure_keeps_its_layout() -> None:
    with house_style():
        figure, (axes,) = new_figure(2.0)
        axes.set_ylabel("a label that takes room")
        settle(figure)
        before = axes.get_position().bounds
        axes.set_ylabel("two\nlines")
        figure.draw_without_rendering()
    assert axes.get_position().bounds == before
    assert before[0] > 0


def test_the_svg_names_no_address_to_load() -> None:
    text = picture().svg().decode()
    assert text.lstrip().startswith("<?xml")
    assert 'href="http' not in text


def test_a_figure_has_its_axes_in_reading_order() -> None:
    figure, axes = new_figure(3.0, rows=2, columns=2)
    assert axes == figure.axes
    assert [one.get_subplotspec().num1 for one in axes if one.get_subplotspec()] == [0, 1, 2, 3]


def test_marks_tell_plans_apart_by_shape_and_colour(record: StudyRecord) -> None:
    row = replace(front_table(record)[0], recommended=False, labels=())
    rows = {
        "finalist": row,
        "present counts": replace(row, labels=("present",)),
        "rule of thumb": replace(row, labels=("rule", "smallest")),
        "recommended": replace(row, recommended=True),
        "recommended: the present counts": replace(row, recommended=True, labels=("present", "rule")),
        "on the front, not verified": replace(row, verified=False),
        "present counts, not verified": replace(row, verified=False, labels=("present",)),
    }
    marks = {words: mark_of(shown) for words, shown in rows.items()}
    assert {words: mark.words for words, mark in marks.items()} == {words: words for words in rows}
    assert len({marks[words].colour for words in ("finalist", "present counts", "rule of thumb", "recommended")}) == 4
    assert [marks[words].shape for words in ("finalist", "present counts", "rule of thumb", "recommended")] == list(
        "osDo"
    )
    assert marks["recommended: the present counts"].shape == "s"
    assert marks["recommended: the present counts"].name == "recommended"
