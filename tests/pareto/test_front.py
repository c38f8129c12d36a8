import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import InputError
from headtune.pareto.dominance import dominates
from headtune.pareto.front import ParetoFront, ParetoPoint
from headtune.pareto.indicator import hypervolume
from headtune.pareto.objective import Objective

OBJECTIVES = (
    Objective(metric="val_accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)
POINTS = [((0.0, 1.0), "1-1"), ((0.9, 4.0), "4-4"), ((0.4, 9.0), "bad"), ((1.0, 11.0), "8-8"), ((0.5, 3.0), "2-4")]


def test_of_keeps_what_nothing_dominates_the_best_quality_first() -> None:
    front = ParetoFront.of(OBJECTIVES, POINTS)
    assert front.items == ("8-8", "4-4", "2-4", "1-1")
    assert [point.values for point in front] == [(1.0, 11.0), (0.9, 4.0), (0.5, 3.0), (0.0, 1.0)]
    assert len(front) == 4


def test_the_knee_is_an_item() -> None:
    front = ParetoFront.of(OBJECTIVES, POINTS)
    assert front.knee() == "4-4"
    assert front.knee_point() == ParetoPoint(values=(0.9, 4.0), item="4-4")


def test_items_may_be_anything_and_equal_points_stay_as_they_came() -> None:
    front = ParetoFront.of(OBJECTIVES, [((0.5, 1.0), {"b": 1}), ((0.5, 1.0), {"a": 2})])
    assert front.items == ({"b": 1}, {"a": 2})
    assert front.knee() == {"b": 1}


@given(st.lists(st.tuples(st.integers(0, 6).map(float), st.integers(0, 6).map(float)), max_size=12))
def test_the_front_is_free_of_dominance_sorted_and_as_large_as_all_points(values: list[tuple[float, float]]) -> None:
    front = ParetoFront.of(OBJECTIVES, [(value, number) for number, value in enumerate(values)])
    assert all(values[point.item] == point.values for point in front)
    assert not any(dominates(a.values, b.values, OBJECTIVES) for a in front for b in front)
    assert [(-quality, time) for quality, time in (point.values for point in front)] == sorted(
        (-quality, time) for quality, time in (point.values for point in front)
    )
    assert front.hypervolume((-1.0, 7.0)) == hypervolume(values, OBJECTIVES, (-1.0, 7.0))


def test_a_front_is_a_value() -> None:
    front = ParetoFront.of(OBJECTIVES, POINTS)
    assert pickle.loads(pickle.dumps(front)) == front
    assert len({front, ParetoFront.of(OBJECTIVES, list(reversed(POINTS)))}) == 1


def test_an_empty_front_has_no_volume_and_no_knee() -> None:
    front: ParetoFront[str] = ParetoFront.of(OBJECTIVES, [])
    assert front.hypervolume((0.0, 10.0)) == 0.0
    with pytest.raises(InputError) as caught:
        front.knee()
    assert str(caught.value) == "an empty front has no knee"


def test_a_diverged_point_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        ParetoFront.of(OBJECTIVES, [*POINTS, ((math.nan, 1.0), "nan")])
    assert str(caught.value) == "point 5: val_accuracy is nan; only finite numbers compare, so leave out what diverged"


def test_a_front_shows_one_point_a_line() -> None:
    goals = [Objective(metric="acc", direction="maximize"), Objective(metric="latency_ms", direction="minimize")]
    front = ParetoFront.of(goals, [((0.9, 2.0), "b"), ((0.95, 3.123456789), "c"), ((0.1, 9.0), "d")])
    assert repr(front) == ("ParetoFront of 2 points\n  acc 0.95, latency_ms 3.12346: 'c'\n  acc 0.9, latency_ms 2: 'b'")
    assert repr(ParetoFront.of(goals, [])) == "ParetoFront of 0 points"
