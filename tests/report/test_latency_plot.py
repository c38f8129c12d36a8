from dataclasses import replace

import numpy as np
import pytest

from headtune.report.figure_style import Picture
from headtune.report.latency_plot import latency_picture
from headtune.study.record import StudyRecord


def draw(record: StudyRecord) -> Picture:
    picture = latency_picture(record)
    assert picture is not None
    return picture


def test_each_plan_lies_at_its_latency_fastest_first(record: StudyRecord) -> None:
    assert record.latency_range is not None
    axes = draw(record).figure.axes[0]
    middles = [float(np.asarray(bar[0].get_xdata())[0]) for bar in axes.containers]  # type: ignore[index]
    expected = sorted(profile.ratio * 2.4 for profile in record.latency_range.profiles.values())
    assert middles == pytest.approx(expected, rel=1e-12)
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "all smallest",
        "rule of thumb",
        "present counts",
        "all largest",
    ]


def test_bars_are_the_ratios_intervals_on_the_frozen_scale(record: StudyRecord) -> None:
    assert record.latency_range is not None
    axes = draw(record).figure.axes[0]
    profiles = sorted(record.latency_range.profiles.values(), key=lambda profile: profile.ratio)
    for container, profile in zip(axes.containers, profiles, strict=True):
        (bar,) = container[2]  # type: ignore[index]
        reach = np.asarray(bar.get_segments()[0])[:, 0]
        assert list(reach) == pytest.approx([bound * 2.4 for bound in profile.ratio_interval], rel=1e-12)


def test_the_limit_is_drawn_and_named(record: StudyRecord) -> None:
    (legend,) = draw(record).figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["limit: 3 ms"]
    assert draw(replace(record, limits={})).figure.legends == []


def test_the_alternative_text_holds_the_numbers(record: StudyRecord) -> None:
    assert record.latency_range is not None
    present = record.latency_range.profiles["present"].ratio * 2.4
    assert f"present counts {present:.3f} ms" in draw(record).alt


def test_without_a_profile_there_is_no_picture(record: StudyRecord) -> None:
    assert record.latency_range is not None
    assert latency_picture(replace(record, latency_range=None)) is None
    assert latency_picture(replace(record, latency_range=replace(record.latency_range, profiles={}))) is None
