from collections.abc import Callable
from dataclasses import replace

import pytest

from headtune.pareto import Objective
from headtune.report.figure_style import new_figure
from headtune.report.front_points import Axis, Dot, Standing, dots, picture_axes
from headtune.report.front_rows import front_table
from headtune.report.front_view import ends, frame_panel, in_view, limits_in_view, reach, view
from headtune.study.record import StudyRecord

MakeRecord = Callable[..., StudyRecord]


def test_a_narrow_range_is_linear_with_room() -> None:
    scale, low, high = view([2.0, 3.0])
    assert (scale, low, high) == ("linear", pytest.approx(1.93), pytest.approx(3.07))


def test_a_wide_range_is_logarithmic_with_room() -> None:
    scale, low, high = view([1.0, 100.0])
    assert scale == "log"
    assert 0 < low < 1
    assert high > 100
    assert low * high == pytest.approx(100.0)


def test_values_at_or_below_zero_stay_linear() -> None:
    assert view([0.0, 100.0])[0] == "linear"
    assert view([-1.0, 100.0])[0] == "linear"


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [0.0], [-2.0], []])
def test_a_single_value_gets_a_range(values: list[float]) -> None:
    _, low, high = view(values)
    assert low < high
    assert all(low < value < high for value in values)


def test_every_trained_plan_and_the_reference_lie_inside(partial: StudyRecord) -> None:
    rows = front_table(partial)
    for pair in picture_axes(partial):
        _, (axes,) = new_figure(3.0)
        panel = dots(partial, *pair)
        frame_panel(axes, rows, pair, panel, (1.0, 0.5))
        kept = [dot for dot in panel if dot.standing in (Standing.FINISHED, Standing.INFEASIBLE)]
        assert all(in_view(axes, dot.x, dot.y) for dot in kept)
        assert in_view(axes, 1.0, 0.5)
        for row in rows:
            for x in ends(row, pair[0].metric):
                assert in_view(axes, x, None)


def test_axes_are_labelled_with_unit_and_arrow(record: StudyRecord) -> None:
    ((x, y),) = picture_axes(record)
    _, (axes,) = new_figure(3.0)
    frame_panel(axes, (), (x, y), [Dot(number=0, standing=Standing.FINISHED, x=2.0, y=0.9)], None)
    assert axes.get_xlabel() == "←   latency (ms)   lower is better"
    assert axes.get_ylabel() == "val_accuracy   higher is better →"
    frame_panel(axes, (), (replace(x, is_objective=False), y), [], None)
    assert axes.get_xlabel() == "latency (ms)"


def test_large_numbers_have_separators(record: StudyRecord) -> None:
    pair = Axis(objective=Objective(metric="parameters", direction="minimize")), picture_axes(record)[0][1]
    figure, (axes,) = new_figure(3.0)
    frame_panel(axes, (), pair, [Dot(number=0, standing=Standing.FINISHED, x=150_000, y=0.9)], None)
    figure.draw_without_rendering()
    assert all("," in label.get_text() for label in axes.get_xticklabels())


def test_limits_are_known_where_they_can_be_seen(record: StudyRecord) -> None:
    ((x, y),) = picture_axes(record)
    _, (axes,) = new_figure(3.0)
    axes.set(xlim=(2, 4), ylim=(0.8, 1.0))
    limited = replace(record, limits={"latency_ms": 3.0, "val_accuracy": 0.5, "parameters": 3.0})
    assert limits_in_view(axes, limited, (x, y)) == {"latency_ms": 3.0}


def test_bars_reach_one_deviation_or_the_interval(record: StudyRecord) -> None:
    row = front_table(record)[0]
    deviation, interval, value = row.deviation("val_accuracy"), row.interval_ms("latency_ms"), row.value("latency_ms")
    assert interval is not None
    assert value is not None
    assert reach(row, "val_accuracy") == (deviation, deviation)
    assert reach(row, "latency_ms") == pytest.approx((value - interval[0], interval[1] - value))
    assert ends(row, "latency_ms") == pytest.approx(interval)
    assert reach(row, "parameters") == (0.0, 0.0)
    assert ends(row, "nothing") == ()


def test_a_logarithmic_axis_is_written_in_plain_numbers(record: StudyRecord) -> None:
    figure, (axes,) = new_figure(3.0)
    panel = [Dot(number=at, standing=Standing.FINISHED, x=0.05 * 10**at, y=0.9) for at in range(4)]
    frame_panel(axes, (), picture_axes(record)[0], panel, None)
    figure.draw_without_rendering()
    written = [label.get_text() for label in axes.get_xticklabels(which="both")]
    assert "$" not in "".join(written)
    assert {"0.1", "1", "10"} <= set(written)
