import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import InputError
from headtune.pareto.dominance import dominates, losses, non_dominated
from headtune.pareto.objective import Direction, Objective

QUALITY_AND_TIME = (
    Objective(metric="val_accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


@st.composite
def points(draw: st.DrawFn) -> tuple[list[tuple[float, ...]], list[Objective]]:
    """Points on a coarse grid, so that ties and equal points are frequent, in one to four objectives."""
    directions: list[Direction] = draw(st.lists(st.sampled_from(["maximize", "minimize"]), min_size=1, max_size=4))
    objectives = [Objective(metric=f"m{number}", direction=direction) for number, direction in enumerate(directions)]
    value = st.integers(0, 4).map(float)
    return draw(st.lists(st.tuples(*[value] * len(objectives)), max_size=12)), objectives


def better_everywhere(a: tuple[float, ...], b: tuple[float, ...], objectives: list[Objective]) -> bool:
    """Dominance from its definition, by ``Objective.better`` alone."""
    worse = any(objective.better(y, x) for objective, x, y in zip(objectives, a, b, strict=True))
    return not worse and any(objective.better(x, y) for objective, x, y in zip(objectives, a, b, strict=True))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0.9, 2.0), (0.8, 3.0), True),
        ((0.9, 2.0), (0.9, 3.0), True),
        ((0.9, 2.0), (0.9, 2.0), False),
        ((0.9, 3.0), (0.8, 2.0), False),
        ((0.8, 3.0), (0.9, 2.0), False),
    ],
)
def test_to_dominate_is_nowhere_worse_and_somewhere_better(
    a: tuple[float, float], b: tuple[float, float], expected: bool
) -> None:
    assert dominates(a, b, QUALITY_AND_TIME) == expected


@given(points())
def test_the_front_is_what_nothing_dominates(drawn: tuple[list[tuple[float, ...]], list[Objective]]) -> None:
    values, objectives = drawn
    expected = [
        index
        for index, point in enumerate(values)
        if not any(better_everywhere(other, point, objectives) for other in values)
    ]
    assert list(non_dominated(values, objectives)) == expected


@given(points())
def test_every_other_point_is_dominated_by_the_front(
    drawn: tuple[list[tuple[float, ...]], list[Objective]],
) -> None:
    values, objectives = drawn
    front = non_dominated(values, objectives)
    for index, point in enumerate(values):
        assert index in front or any(dominates(values[at], point, objectives) for at in front)


def test_equal_points_all_stay() -> None:
    assert non_dominated([(0.9, 2.0), (0.5, 1.0), (0.9, 2.0), (0.5, 2.0)], QUALITY_AND_TIME) == (0, 1, 2)


def test_no_point_has_no_front() -> None:
    assert non_dominated([], QUALITY_AND_TIME) == ()


def test_losses_turn_what_is_maximised() -> None:
    assert losses([(0.9, 2.0)], QUALITY_AND_TIME).tolist() == [[-0.9, 2.0]]


def test_values_that_are_no_numbers_are_refused_all_at_once() -> None:
    with pytest.raises(InputError) as caught:
        non_dominated([(0.9, 2.0), (math.nan, math.inf), (0.8,)], QUALITY_AND_TIME)
    assert str(caught.value) == (
        "3 problems:\n"
        "  - point 2: it has 1 of 2 values, one for each objective\n"
        "  - point 1: val_accuracy is nan; only finite numbers compare, so leave out what diverged\n"
        "  - point 1: latency_ms is inf; only finite numbers compare, so leave out what diverged"
    )


def test_points_without_objectives_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        non_dominated([], [])
    assert str(caught.value) == "there is no objective; name at least one"
