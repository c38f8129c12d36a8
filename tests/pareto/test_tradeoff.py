import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import InputError
from headtune.pareto.dominance import non_dominated
from headtune.pareto.objective import Objective
from headtune.pareto.tradeoff import knee

QUALITY_AND_TIME = (
    Objective(metric="val_accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


def signed_distance(point: tuple[float, float], values: list[tuple[float, float]]) -> float:
    """How far a point lies from the line through the front's ends, in scaled axes: a computation by cross product."""
    best = [max(quality for quality, _ in values), min(time for _, time in values)]
    worst = [min(quality for quality, _ in values), max(time for _, time in values)]

    def scaled(at: tuple[float, float]) -> tuple[float, float]:
        return (best[0] - at[0]) / (best[0] - worst[0]), (at[1] - best[1]) / (worst[1] - best[1])

    (x1, y1), (x2, y2) = scaled(max(values)), scaled(min(values, key=lambda value: value[1]))
    x, y = scaled(point)
    return ((x2 - x1) * (y1 - y) - (x1 - x) * (y2 - y1)) / math.hypot(x2 - x1, y2 - y1)


def test_the_knee_is_farthest_from_the_chord() -> None:
    # Scaled losses: (0, 1), (0.1, 0.3), (0.5, 0.2), (1, 0); sums 1, 0.4, 0.7, 1.
    assert knee([(1.0, 11.0), (0.9, 4.0), (0.5, 3.0), (0.0, 1.0)], QUALITY_AND_TIME) == 1


def test_the_units_do_not_matter() -> None:
    values = [(1.0, 11.0), (0.9, 4.0), (0.5, 3.0), (0.0, 1.0)]
    assert knee([(100 * quality, time / 1000) for quality, time in values], QUALITY_AND_TIME) == 1


def test_a_front_that_bends_away_has_its_knee_at_the_best_quality() -> None:
    assert knee([(0.0, 1.0), (0.1, 9.0), (1.0, 11.0)], QUALITY_AND_TIME) == 2


def test_points_on_a_straight_front_tie_and_the_best_quality_is_taken() -> None:
    values = [(number / 10, 0.3 + 0.7 * number) for number in range(11)]
    assert knee(values, QUALITY_AND_TIME) == 10


def test_equally_far_points_tie_and_the_better_quality_is_taken() -> None:
    values = [(0.0, 0.0), (0.75, 0.5), (0.5, 0.25), (1.0, 1.0)]
    assert knee(values, QUALITY_AND_TIME) == 1


def test_equal_points_tie_and_the_earliest_is_taken() -> None:
    assert knee([(0.0, 0.0), (0.9, 0.1), (0.9, 0.1), (1.0, 1.0)], QUALITY_AND_TIME) == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(0.5, 1.0)], 0),
        ([(0.5, 1.0), (0.9, 100.0)], 1),
        ([(0.5, 1.0), (0.9, 100.0), (0.9, 100.0), (0.5, 1.0)], 1),
        ([(0.5, 1.0), (0.9, 100.0), (0.4, 2.0), (0.8, 101.0)], 1),
    ],
)
def test_with_fewer_than_three_different_points_the_best_quality_is_taken(
    values: list[tuple[float, float]], expected: int
) -> None:
    assert knee(values, QUALITY_AND_TIME) == expected


def test_dominated_points_neither_win_nor_stretch_the_axes() -> None:
    values = [(1.0, 11.0), (0.9, 4.0), (0.5, 3.0), (0.0, 1.0)]
    assert knee([*values, (-50.0, 500.0)], QUALITY_AND_TIME) == knee(values, QUALITY_AND_TIME)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=3, max_size=12, unique=True).map(
        lambda pairs: [(quality / 1000, time / 10) for quality, time in pairs]
    )
)
def test_no_point_of_the_front_is_farther_from_the_chord(values: list[tuple[float, float]]) -> None:
    front = [values[index] for index in non_dominated(values, QUALITY_AND_TIME)]
    chosen = values[knee(values, QUALITY_AND_TIME)]
    assert chosen in front
    if len(front) < 3:
        assert chosen == max(front)
        return
    # 1e-9 is far above the rounding of numbers near 1 and far below the grid's steps of 1e-3.
    assert signed_distance(chosen, front) >= max(signed_distance(point, front) for point in front) - 1e-9


def test_three_objectives_take_the_smallest_sum_of_scaled_losses() -> None:
    objectives = (*QUALITY_AND_TIME, Objective(metric="parameters", direction="minimize"))
    values = [(1.0, 10.0, 10.0), (0.0, 0.0, 10.0), (0.0, 10.0, 0.0), (0.8, 2.0, 3.0)]
    assert knee(values, objectives) == 3


def test_two_points_in_three_objectives_take_the_best_quality() -> None:
    objectives = (*QUALITY_AND_TIME, Objective(metric="parameters", direction="minimize"))
    assert knee([(0.9, 1.0, 5.0), (1.0, 10.0, 10.0)], objectives) == 1


def test_one_objective_takes_the_best() -> None:
    assert knee([(0.1,), (0.9,), (0.5,)], QUALITY_AND_TIME[:1]) == 1


def test_an_objective_without_a_range_does_not_count() -> None:
    objectives = (*QUALITY_AND_TIME, Objective(metric="parameters", direction="minimize"))
    values = [(1.0, 11.0, 7.0), (0.9, 4.0, 7.0), (0.5, 3.0, 7.0), (0.0, 1.0, 7.0)]
    assert knee(values, objectives) == 1


def test_an_empty_front_has_no_knee() -> None:
    with pytest.raises(InputError) as caught:
        knee([], QUALITY_AND_TIME)
    assert str(caught.value) == "an empty front has no knee"


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e307, 1.7e308])
def test_the_knee_does_not_depend_on_the_unit_even_where_differences_overflow(unit: float) -> None:
    objectives = [Objective(metric="acc", direction="maximize"), Objective(metric="ms", direction="minimize")]
    points = [(1.0, 1.0), (0.8, -0.9), (-1.0, -1.0)]
    assert knee([(acc * unit, ms * unit) for acc, ms in points], objectives) == knee(points, objectives) == 1
