import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import MeasurementError, SpaceError
from headtune.heads.constraint import Constraint, HeadDimConstraint, Limit
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan

BOUNDS = st.none() | st.integers(1, 40)


@given(st.integers(1, 60), BOUNDS, BOUNDS, BOUNDS)
def test_violation_is_the_distance_to_the_nearest_allowed_head_dim_or_less(
    head_dim: int, low: int | None, high: int | None, step: int | None
) -> None:
    if (low, high, step) == (None, None, None) or (low and high and low > high):
        return
    constraint = HeadDimConstraint(min=low, max=high, multiple_of=step)
    allowed = [d for d in range(1, 200) if d >= (low or 1) and d <= (high or 199) and d % (step or 1) == 0]
    assert (constraint.violation(head_dim) <= 0) == (head_dim in allowed)
    # Each bound alone is a distance; together they may be farther away, where the nearest multiple is out of bounds.
    if allowed and head_dim not in allowed:
        assert 0 < constraint.violation(head_dim) <= min(abs(head_dim - d) for d in allowed)


@pytest.mark.parametrize(
    ("constraint", "head_dim", "violation"),
    [
        (HeadDimConstraint(min=4), 1, 3.0),
        (HeadDimConstraint(min=4), 10, -6.0),
        (HeadDimConstraint(max=64), 100, 36.0),
        (HeadDimConstraint(max=64), 60, -4.0),
        (HeadDimConstraint(multiple_of=8), 21, 3.0),
        (HeadDimConstraint(multiple_of=8), 18, 2.0),
        (HeadDimConstraint(multiple_of=8), 1, 7.0),
        (HeadDimConstraint(multiple_of=8), 24, 0.0),
        (HeadDimConstraint(min=4, max=64, multiple_of=4), 49, 1.0),
    ],
)
def test_head_dim_violations_in_features(constraint: HeadDimConstraint, head_dim: int, violation: float) -> None:
    assert constraint.violation(head_dim) == violation


def test_a_plan_violates_as_much_as_its_worst_site() -> None:
    plan = HeadPlan.of({"a": HeadCount(8, 8, 8), "b": HeadCount(64, 64, 1)})
    assert HeadDimConstraint(min=4).plan_violation(plan) == 3.0


@given(st.integers(1, 60))
def test_the_parts_together_are_the_constraint(head_dim: int) -> None:
    constraint = HeadDimConstraint(min=4, max=48, multiple_of=8)
    assert len(constraint.parts()) == 3
    assert constraint.violation(head_dim) == max(part.violation(head_dim) for part in constraint.parts())


@pytest.mark.parametrize(
    ("constraint", "name", "unit", "text"),
    [
        (HeadDimConstraint(min=4), "head_dim", "features", "head_dim ≥ 4"),
        (HeadDimConstraint(max=64), "head_dim", "features", "head_dim ≤ 64"),
        (HeadDimConstraint(multiple_of=8), "head_dim", "features", "head_dim multiple of 8"),
        (
            HeadDimConstraint(min=4, max=64, multiple_of=4),
            "head_dim",
            "features",
            "head_dim ≥ 4, ≤ 64, multiple of 4",
        ),
        (Limit(metric="latency_ms", max=4.0), "latency_ms", "ms", "latency_ms ≤ 4 ms"),
        (
            Limit(metric="latency_ms", max_ratio=1.5, of="present"),
            "latency_ms",
            "ms",
            "latency_ms ≤ 1.5 × present",
        ),
        (Limit(metric="latency_ms@128", max=0.12361), "latency_ms@128", "ms", "latency_ms@128 ≤ 0.1236 ms"),
        (Limit(metric="parameters", max=2e6), "parameters", "weights", "parameters ≤ 2,000,000 weights"),
        (Limit(metric="peak_memory_mb", max=8000), "peak_memory_mb", "MB", "peak_memory_mb ≤ 8,000 MB"),
        (Limit(metric="val_loss", max=3), "val_loss", "", "val_loss ≤ 3"),
    ],
)
def test_a_constraint_has_a_name_a_unit_and_one_line(constraint: Constraint, name: str, unit: str, text: str) -> None:
    assert (constraint.name, constraint.unit, str(constraint)) == (name, unit, text)
    assert pickle.loads(pickle.dumps(constraint)) == constraint


def test_a_ratio_resolves_against_its_own_reference() -> None:
    limit = Limit(metric="latency_ms", max_ratio=1.5, of="rule")
    resolved = limit.resolve({"present": 100.0, "rule": 4.0})
    assert resolved == Limit(metric="latency_ms", max=6.0)
    assert resolved.resolve({}) is resolved


@pytest.mark.parametrize(("value", "violation"), [(5.0, -1.0), (6.0, 0.0), (8.5, 2.5), (math.inf, math.inf)])
def test_a_limit_is_violated_above_it_and_kept_at_it(value: float, violation: float) -> None:
    assert Limit(metric="latency_ms", max=6.0).violation(value) == violation


def test_an_unresolved_ratio_refuses_to_judge() -> None:
    with pytest.raises(MeasurementError) as caught:
        Limit(metric="latency_ms", max_ratio=1.5, of="present").violation(3.0)
    assert str(caught.value) == (
        "latency_ms ≤ 1.5 × present: a ratio cannot judge 3; resolve it to an absolute limit first"
    )


def test_a_nan_is_not_judged() -> None:
    with pytest.raises(MeasurementError) as caught:
        Limit(metric="latency_ms", max=6.0).violation(math.nan)
    assert str(caught.value) == "latency_ms ≤ 6 ms: the value is NaN, which is neither above nor below"


@pytest.mark.parametrize(
    ("references", "problem"),
    [
        ({"rule": 2.0}, "the present plan has no latency_ms yet; measure it first"),
        ({"present": 0.0}, "latency_ms of the present plan is 0, of which there is no ratio"),
        ({"present": math.nan}, "latency_ms of the present plan is nan, of which there is no ratio"),
    ],
)
def test_a_ratio_of_nothing_is_refused(references: dict[str, float], problem: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        Limit(metric="latency_ms", max_ratio=1.5, of="present").resolve(references)
    assert str(caught.value) == f"latency_ms ≤ 1.5 × present: {problem}"


def test_a_head_dim_constraint_without_a_bound_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        HeadDimConstraint()
    assert str(caught.value) == "head_dim: nothing is constrained; give min, max or multiple_of"


def test_head_dim_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        HeadDimConstraint(min=64, max=4)
    assert str(caught.value) == "head_dim: min 64 is more than max 4; swap them"


def test_head_dim_bounds_below_one_are_refused_all_at_once() -> None:
    with pytest.raises(SpaceError) as caught:
        HeadDimConstraint(min=0, multiple_of=-8)
    assert str(caught.value) == (
        "2 problems:\n"
        "  - head_dim: min is 0; it must be at least 1\n"
        "  - head_dim: multiple_of is -8; it must be at least 1"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "latency_ms: give either max or max_ratio"),
        ({"max": 4.0, "max_ratio": 1.5, "of": "rule"}, "latency_ms: give either max or max_ratio"),
        (
            {"max_ratio": 1.5},
            "latency_ms: max_ratio needs what it is a ratio of; add of: present or of: rule",
        ),
        (
            {"max": 4.0, "of": "rule"},
            "latency_ms: of: rule goes with max_ratio only; write max_ratio, or leave of out",
        ),
        ({"max": 0.0}, "latency_ms: max is 0.0; it must be a positive number"),
        ({"max": math.nan}, "latency_ms: max is nan; it must be a positive number"),
        (
            {"max_ratio": math.inf},
            "2 problems:\n"
            "  - latency_ms: max_ratio is inf; it must be a positive number\n"
            "  - latency_ms: max_ratio needs what it is a ratio of; add of: present or of: rule",
        ),
    ],
)
def test_a_limit_without_one_clear_meaning_is_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Limit(metric="latency_ms", **arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_values_of_the_wrong_kind_are_told() -> None:
    with pytest.raises(SpaceError) as caught:
        Limit(metric="latency_ms", max="4 ms", max_ratio=True, of="best")  # type: ignore[arg-type]
    assert caught.value.problems == (
        "latency_ms: max is '4 ms'; it must be a positive number",
        "latency_ms: max_ratio is True; it must be a positive number",
        "latency_ms: give either max or max_ratio",
        "latency_ms: of is 'best'; it must be present or rule",
    )
    with pytest.raises(SpaceError, match=r"^head_dim: min is 1\.5; it must be a whole number$"):
        HeadDimConstraint(min=1.5)  # type: ignore[arg-type]
