"""What is wanted: the sections ``objectives`` and ``constraints`` of a study file."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from headtune.config.section import Problem, Section
from headtune.config.values import LENGTHS, Number, kept
from headtune.errors import SpaceError
from headtune.heads.constraint import HeadDimConstraint, Limit, Reference
from headtune.pareto.objective import Direction, Objective, is_latency, reportable


class ObjectiveSection(Section):
    """One of ``objectives``."""

    metric: str
    """the name that the task reports, such as val_accuracy, or latency_ms, parameters or peak_memory_mb"""
    direction: Direction
    """maximize or minimize"""

    @field_validator("metric")
    @classmethod
    def _named(cls, metric: str) -> str:
        return kept(reportable)(metric)

    def build(self) -> Objective:
        """The objective as headtune's value."""
        return Objective(metric=self.metric, direction=self.direction)


class HeadDimSection(Section):
    """``constraints.head_dim``."""

    min: int | None = None
    max: int | None = None
    multiple_of: int | None = None

    def build(self) -> HeadDimConstraint:
        """The constraint as headtune's value."""
        return HeadDimConstraint(min=self.min, max=self.max, multiple_of=self.multiple_of)


class LimitSection(Section):
    """``constraints.latency_ms`` and the like: ``{max: 4.0}`` or ``{max_ratio: 1.5, of: present}``."""

    max: Number | None = None
    max_ratio: Number | None = None
    of: Reference | None = None

    def problems(self) -> Iterable[Problem]:
        """What the limit itself refuses."""
        try:
            self.limit("limit")
        except SpaceError as error:
            return [((), problem.removeprefix("limit: ")) for problem in error.problems]
        return ()

    def limit(self, metric: str) -> Limit:
        """The limit of *metric* as headtune's value."""
        return Limit(metric=metric, max=self.max, max_ratio=self.max_ratio, of=self.of)


class ConstraintsSection(Section):
    """What every plan must keep."""

    head_dim: HeadDimSection | None = None
    latency_ms: LimitSection | None = None
    parameters: LimitSection | None = None
    peak_memory_mb: LimitSection | None = None
    at_lengths: dict[Annotated[str, AfterValidator(kept(reportable))], LimitSection] = Field(
        default_factory=dict, validation_alias=LENGTHS
    )

    @model_validator(mode="before")
    @classmethod
    def _set_lengths_apart(cls, value: object) -> object:
        """Keys such as ``latency_ms@128``, which a closed section cannot foresee."""
        if not isinstance(value, dict):
            return value
        apart = {key: item for key, item in value.items() if isinstance(key, str) and "@" in key and is_latency(key)}
        return {key: item for key, item in value.items() if key not in apart} | ({LENGTHS: apart} if apart else {})

    def build(self) -> tuple[Limit, ...]:
        """The limits as headtune's values, without that on head_dim, which shapes the space."""
        given = {
            "latency_ms": self.latency_ms,
            **self.at_lengths,
            "parameters": self.parameters,
            "peak_memory_mb": self.peak_memory_mb,
        }
        return tuple(section.limit(metric) for metric, section in given.items() if section is not None)
