from collections.abc import Callable
from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from headtune.report.figure_style import FAINT, PLAN
from headtune.report.influence_plot import MOST_BARS, influence_picture
from headtune.report.influence_words import influence_sentence
from headtune.search import Influence
from headtune.study.record import StudyRecord

MakeRecord = Callable[..., StudyRecord]


def lengths(axes: Axes) -> list[float]:
    return [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]


def test_each_bar_is_the_share_of_its_choice_in_the_order_of_the_model(record: StudyRecord) -> None:
    picture = influence_picture(record)
    assert picture is not None
    panels = picture.figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["val_accuracy", "latency"]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == [site.path for site in record.sites]
    assert panels[0].yaxis_inverted()
    for axes, one in zip(panels, record.influences, strict=True):
        assert lengths(axes) == pytest.approx([100 * share for share in one.shares.values()])
        colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
        assert colours == [PLAN if name in one.clear else FAINT for name in one.shares]


def test_of_many_choices_the_largest_are_drawn_and_the_rest_is_counted(make_record: MakeRecord) -> None:
    record = make_record(sites=96, trials=8)
    picture = influence_picture(record)
    assert picture is not None
    quality, _ = record.influences
    assert len(lengths(picture.figure.axes[0])) == MOST_BARS
    assert max(lengths(picture.figure.axes[0])) == pytest.approx(100 * max(quality.shares.values()))
    assert f"{96 - MOST_BARS} choices with less influence are left out here." in picture.caption


def test_where_nothing_can_be_told_there_is_no_picture(record: StudyRecord) -> None:
    assert influence_picture(replace(record, influences=())) is None
    untold = Influence(metric="val_accuracy", trials=4, shares={}, why="4 of the 20 trials that it takes are there")
    assert influence_picture(replace(record, influences=(untold,))) is None


SHARES = {"layers.0": 0.62, "layers.1": 0.03, "lr": 0.2, "layers.2": 0.15}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clear": ("layers.0",)}, "By val_accuracy, the best trials differ from the others in layers.0 (62 %)."),
        (
            {"clear": ("layers.0", "lr")},
            "By val_accuracy, the best trials differ from the others in layers.0 (62 %), then lr (20 %).",
        ),
        ({"clear": ("lr",)}, "By val_accuracy, the best trials differ from the others in lr (20 %)."),
        (
            {"clear": ("layers.0", "lr", "layers.2", "layers.1")},
            "By val_accuracy, the best trials differ from the others in layers.0 (62 %), then lr (20 %), "
            "layers.2 (15 %) and 1 more.",
        ),
        ({}, "No choice stands out from chance for val_accuracy, in 30 trials."),
        (
            {"shares": {}, "why": "all 30 trials have the same value"},
            "What val_accuracy depends on cannot be told: all 30 trials have the same value.",
        ),
        (
            {"metric": "latency_ms", "clear": ("lr",)},
            "By latency, the best trials differ from the others in lr (20 %).",
        ),
    ],
)
def test_what_mattered_in_a_sentence(changes: dict[str, object], sentence: str) -> None:
    known: dict[str, object] = {"metric": "val_accuracy", "trials": 30, "shares": SHARES}
    assert influence_sentence(Influence(**(known | changes))) == sentence  # type: ignore[arg-type]
