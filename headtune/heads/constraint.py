"""Named rules that a plan must keep; each says by how much, in its own unit, a plan breaks it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import MeasurementError, SpaceError
from headtune.heads.plan import HeadPlan

Reference = Literal["present", "rule"]
"""The plan that a ratio is taken of: the present counts, or the rule of thumb."""

_UNITS = {"latency_ms": "ms", "parameters": "weights", "peak_memory_mb": "MB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadDimConstraint:
    """Which head dimensions are wanted, in features per head.

    Attributes:
        min: smallest head_dim.
        max: largest head_dim.
        multiple_of: what every head_dim is a multiple of; 2 for rotary positions, 8 for most fused kernels.

    Raises:
        SpaceError: a bound is below 1, the bounds contradict each other, or none is given.
    """

    min: int | None = None
    max: int | None = None
    multiple_of: int | None = None

    def __post_init__(self) -> None:
        given = {"min": self.min, "max": self.max, "multiple_of": self.multiple_of}
        problems = [
            f"head_dim: {name} is {bound!r}; it {rules.count(bound)}"
            for name, bound in given.items()
            if bound is not None and rules.count(bound)
        ]
        if not problems and self.min is not None and self.max is not None and self.min > self.max:
            problems.append(f"head_dim: min {self.min} is more than max {self.max}; swap them")
        if all(bound is None for bound in given.values()):
            problems.append("head_dim: nothing is constrained; give min, max or multiple_of")
        if problems:
            raise SpaceError(*problems)

    @property
    def name(self) -> str:
        """``head_dim``."""
        return "head_dim"

    @property
    def unit(self) -> str:
        """``features``."""
        return "features"

    def violation(self, head_dim: int) -> float:
        """By how many features *head_dim* misses what is wanted; 0 or less where it is allowed."""
        misses = []
        if self.min is not None:
            misses.append(self.min - head_dim)
        if self.max is not None:
            misses.append(head_dim - self.max)
        if self.multiple_of is not None:
            misses.append(_distance_to_multiple(head_dim, self.multiple_of))
        return float(max(misses))

    def plan_violation(self, plan: HeadPlan) -> float:
        """The violation of the plan's worst site."""
        return max(self.violation(count.head_dim) for _, count in plan)

    def parts(self) -> tuple["HeadDimConstraint", ...]:
        """The same constraint as one constraint for each bound."""
        parts = []
        if self.min is not None:
            parts.append(HeadDimConstraint(min=self.min))
        if self.max is not None:
            parts.append(HeadDimConstraint(max=self.max))
        if self.multiple_of is not None:
            parts.append(HeadDimConstraint(multiple_of=self.multiple_of))
        return tuple(parts)

    def __str__(self) -> str:
        low = "" if self.min is None else f" ≥ {self.min}"
        high = "" if self.max is None else f" ≤ {self.max}"
        step = "" if self.multiple_of is None else f" multiple of {self.multiple_of}"
        return f"head_dim{','.join(filter(None, (low, high, step)))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """An upper limit of one metric: absolute, or as a ratio of what a reference plan has.

    Attributes:
        metric: what is limited, such as ``latency_ms`` (``latency_ms@128`` at one sequence length).
        max: the limit in the metric's unit.
        max_ratio: the limit as a multiple of the reference's value.
        of: the reference of ``max_ratio``.

    Raises:
        SpaceError: not exactly one of max and max_ratio is given, it is not positive, or ``of`` does not go with it.
    """

    metric: str
    max: float | None = None
    max_ratio: float | None = None
    of: Reference | None = None

    def __post_init__(self) -> None:
        problems = [
            f"{self.metric}: {name} is {bound!r}; it must be a positive number"
            for name, bound in (("max", self.max), ("max_ratio", self.max_ratio))
            if bound is not None and rules.positive(bound)
        ]
        if (self.max is None) == (self.max_ratio is None):
            problems.append(f"{self.metric}: give either max or max_ratio")
        if self.max_ratio is not None and self.of is None:
            problems.append(f"{self.metric}: max_ratio needs what it is a ratio of; add of: present or of: rule")
        if self.max_ratio is None and self.of is not None:
            problems.append(f"{self.metric}: of: {self.of} goes with max_ratio only; write max_ratio, or leave of out")
        if self.of is not None and rules.one_of(get_args(Reference))(self.of):
            problems.append(f"{self.metric}: of is {self.of!r}; it {rules.one_of(get_args(Reference))(self.of)}")
        problems += rules.broken({"metric": (self.metric, rules.text)})
        if problems:
            raise SpaceError(*problems)

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric

    @property
    def unit(self) -> str:
        """The metric's unit; empty for a metric of the task."""
        return _UNITS.get(self.metric.partition("@")[0], "")

    def resolve(self, references: Mapping[str, float]) -> "Limit":
        """The same limit as an absolute one; itself where it is absolute already.

        Args:
            references: the metric's value under the reference plans, by ``present`` and ``rule``.

        Raises:
            MeasurementError: the reference is missing, or its value is no positive number.
        """
        if self.max_ratio is None or self.of is None:
            return self
        value = references.get(self.of)
        if value is None:
            raise MeasurementError(f"{self}: the {self.of} plan has no {self.metric} yet; measure it first")
        if not (isfinite(value) and value > 0):
            raise MeasurementError(
                f"{self}: {self.metric} of the {self.of} plan is {value:g}, of which there is no ratio"
            )
        return Limit(metric=self.metric, max=self.max_ratio * value)

    def violation(self, value: float) -> float:
        """By how much *value* exceeds the limit, in the metric's unit; 0 or less where it keeps it.

        Raises:
            MeasurementError: the limit is a ratio that was never resolved, or *value* is NaN.
        """
        if self.max is None:
            raise MeasurementError(f"{self}: a ratio cannot judge {value:g}; resolve it to an absolute limit first")
        if isnan(value):
            raise MeasurementError(f"{self}: the value is NaN, which is neither above nor below")
        return value - self.max

    def __str__(self) -> str:
        if self.max is None:
            return f"{self.metric} ≤ {self.max_ratio:g} × {self.of}"
        number = f"{self.max:,.0f}" if self.max >= 1000 else f"{self.max:.4g}"
        return f"{self.metric} ≤ {number} {self.unit}".rstrip()


Constraint = HeadDimConstraint | Limit


def _distance_to_multiple(number: int, step: int) -> int:
    """How far the nearest positive multiple of *step* is."""
    return step - number if number < step else min(number % step, -number % step)
