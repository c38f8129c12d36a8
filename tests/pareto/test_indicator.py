import math
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headtune.errors import InputError
from headtune.pareto.indicator import hypervolume, reference_point
from headtune.pareto.objective import Objective

# Sums of products of numbers near 1: rounding stays some units of the last of 16 digits.
EXACT = 1e-12


def minimised(count: int) -> list[Objective]:
    return [Objective(metric=f"m{number}", direction="minimize") for number in range(count)]


def inclusion_exclusion(points: list[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    """The volume of the union of boxes from its definition: a second computation that shares nothing with the first."""
    total = 0.0
    for size in range(1, len(points) + 1):
        for boxes in combinations(points, size):
            corner = [max(values) for values in zip(*boxes, strict=True)]
            volume = math.prod(max(0.0, end - at) for at, end in zip(corner, reference, strict=True))
            total += volume if size % 2 else -volume
    return total


@pytest.mark.parametrize("count", [1, 2, 3, 10, 57])
def test_a_staircase_of_unit_steps(count: int) -> None:
    points = [(float(step), float(count - 1 - step)) for step in range(count)]
    expected = count * count - count * (count - 1) / 2
    assert hypervolume(points, minimised(2), (count, count)) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 10, 25])
def test_a_staircase_of_unit_steps_with_a_third_objective(count: int) -> None:
    points = [(float(step), float(count - 1 - step), 2.0) for step in range(count)]
    expected = 3 * (count * count - count * (count - 1) / 2)
    assert hypervolume(points, minimised(3), (count, count, 5)) == expected


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5])
def test_unit_vectors_dominate_all_but_the_unit_cube(dimensions: int) -> None:
    # Each e_i dominates 10 ** (m - 1) * 9; what none dominates is the cube below 1 in every objective.
    points = [tuple(float(axis == number) for axis in range(dimensions)) for number in range(dimensions)]
    expected = 10**dimensions - 1 if dimensions > 1 else 9
    assert hypervolume(points, minimised(dimensions), (10.0,) * dimensions) == expected


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_one_point_dominates_a_box(dimensions: int) -> None:
    assert hypervolume([(1.0,) * dimensions], minimised(dimensions), (3.0,) * dimensions) == 2.0**dimensions


def test_the_sphere_octant_converges_to_its_closed_form() -> None:
    # The dominated part of the unit cube above the sphere x² + y² + z² = 1 is 1 - π/6, approached from below.
    angles = np.linspace(0, np.pi / 2, 40)
    points = [(math.cos(a) * math.cos(b), math.cos(a) * math.sin(b), math.sin(a)) for a in angles for b in angles]
    expected = 1 - math.pi / 6
    found = hypervolume(points, minimised(3), (1.0, 1.0, 1.0))
    # A 40 × 40 grid leaves steps of about π/80 = 4 % of the unit along each axis.
    assert expected - 0.04 < found < expected


@given(st.integers(1, 4).flatmap(lambda m: st.lists(st.tuples(*[st.floats(0, 1.2)] * m), min_size=1, max_size=7)))
@settings(deadline=None)
def test_it_equals_inclusion_and_exclusion(points: list[tuple[float, ...]]) -> None:
    reference = (1.0,) * len(points[0])
    found = hypervolume(points, minimised(len(reference)), reference)
    assert found == pytest.approx(inclusion_exclusion(points, reference), abs=EXACT)


@given(st.lists(st.tuples(*[st.integers(0, 5).map(float)] * 3), min_size=1, max_size=8), st.randoms())
def test_order_repetition_and_dominated_points_do_not_matter(
    points: list[tuple[float, ...]], random: "np.random.RandomState"
) -> None:
    found = hypervolume(points, minimised(3), (5.0, 5.0, 5.0))
    worse = [tuple(value + 0.5 for value in point) for point in points]
    shuffled = [*points, *worse, *points]
    random.shuffle(shuffled)
    assert hypervolume(shuffled, minimised(3), (5.0, 5.0, 5.0)) == found


def test_directions_turn_the_axes() -> None:
    objectives = [Objective(metric="acc", direction="maximize"), Objective(metric="ms", direction="minimize")]
    assert hypervolume([(0.75, 2.0), (0.5, 1.0)], objectives, (0.25, 4.0)) == 0.5 * 2.0 + 0.25 * 1.0


def test_points_that_do_not_beat_the_reference_add_nothing() -> None:
    assert hypervolume([], minimised(2), (1.0, 1.0)) == 0.0
    assert hypervolume([(0.5, 1.0), (2.0, 0.0), (1.0, 1.0)], minimised(2), (1.0, 1.0)) == 0.0
    assert hypervolume([(0.5, 0.5), (-9.0, 1.0)], minimised(2), (1.0, 1.0)) == 0.25


def test_a_wrong_point_is_named() -> None:
    with pytest.raises(InputError) as caught:
        hypervolume([(0.5, math.nan)], minimised(2), (1.0, 1.0))
    assert str(caught.value) == "point 0: m1 is nan; only finite numbers compare, so leave out what diverged"


def test_a_wrong_reference_is_named() -> None:
    with pytest.raises(InputError) as caught:
        hypervolume([(0.5, 0.5)], minimised(2), (1.0, math.inf))
    assert str(caught.value) == "reference: m1 is inf; only finite numbers compare, so leave out what diverged"


def test_the_reference_point_is_the_nadir_moved_by_a_tenth_of_the_range() -> None:
    objectives = [Objective(metric="acc", direction="maximize"), Objective(metric="ms", direction="minimize")]
    assert reference_point([(0.9, 4.0), (0.5, 1.0), (0.7, 2.0)], objectives) == pytest.approx((0.46, 4.3), abs=EXACT)


def test_without_a_range_it_moves_by_a_tenth_of_the_size() -> None:
    objectives = [Objective(metric="score", direction="maximize"), Objective(metric="ms", direction="minimize")]
    assert reference_point([(-2.0, 4.0)], objectives) == pytest.approx((-2.2, 4.4), abs=EXACT)
    assert reference_point([(0.0, 4.0), (0.0, 6.0)], objectives) == pytest.approx((0.0, 6.2), abs=EXACT)


@given(st.lists(st.tuples(*[st.floats(0.1, 100)] * 2), min_size=1, max_size=8))
@example(points=[(1.0, 0.1), (1.0, 0.10000000000000002)])
def test_every_point_beats_its_own_reference(points: list[tuple[float, float]]) -> None:
    objectives = [Objective(metric="acc", direction="maximize"), Objective(metric="ms", direction="minimize")]
    reference = reference_point(points, objectives)
    assert all(acc > reference[0] and ms < reference[1] for acc, ms in points)


def test_a_reference_of_nothing_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        reference_point([], minimised(2))
    assert str(caught.value) == "a reference point needs at least one point; finish a baseline first"


@pytest.mark.parametrize("exponent", [-300, -1, 0, 1, 300])
def test_the_volume_scales_exactly_with_the_unit(exponent: int) -> None:
    objectives = minimised(2)
    points, reference = [(1.0, 3.0), (2.0, 1.5)], (4.0, 4.0)
    unit = 2.0**exponent
    scaled = hypervolume([(a * unit, b) for a, b in points], objectives, (reference[0] * unit, reference[1]))
    assert scaled == hypervolume(points, objectives, reference) * unit


def test_values_at_the_end_of_the_finite_numbers_neither_overflow_nor_become_nan() -> None:
    largest = sys.float_info.max
    one, two = minimised(1), minimised(2)
    assert hypervolume([(-largest,)], one, (0.0,)) == largest
    assert hypervolume([(-largest,)], one, (largest,)) == math.inf
    assert hypervolume([(-1e308, 0.0), (0.0, -1e-308)], two, (1e308, 1e-308)) == pytest.approx(3.0)
    assert hypervolume([(-1e308, -1e308)], two, (1e308, 1e308)) == math.inf
    assert hypervolume([(0.0, 0.0)], two, (0.0, 0.0)) == 0.0
    assert reference_point([(largest,), (-largest,)], one) == (largest,)
    assert reference_point([(-largest,)] * 2, one) == (-0.9 * largest,)
