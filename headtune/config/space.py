"""The section ``space`` of a study file."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Tag

import headtune.rules as rules
from headtune.config.section import Problem, Section, broken
from headtune.config.values import (
    CHOICES,
    EMPTY,
    LIST,
    MAPPING,
    WORD,
    Identifier,
    Number,
    Scalar,
    either,
    kind,
)
from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.options import SiteOptions, SpaceOptions
from headtune.heads.setting import HeadRange, Stages
from headtune.heads.site import Hold


class RangeSection(Section):
    """``heads: {min: 1, max: 16, divisible_by: 2}``."""

    min: int = 1
    max: int | None = None
    divisible_by: int = 1

    def build(self) -> HeadRange:
        """The range as headtune's value."""
        return HeadRange(min=self.min, max=self.max, divisible_by=self.divisible_by)


class StagesSection(Section):
    """``tie: {stages: 3}``."""

    stages: int
    """the number of groups that each stack of layers is cut into"""

    def build(self) -> Stages:
        """The stages as headtune's value."""
        return Stages(self.stages)


Counts = Annotated[list[int], Tag(LIST)]
Heads = Annotated[
    Annotated[Literal["auto"], Tag(WORD)] | Counts | Annotated[RangeSection, Tag(MAPPING)],
    either("auto, a list such as [1, 2, 4], or a range such as {min: 1, max: 16}", "auto"),
]
KvHeads = Annotated[
    Annotated[Literal["same", "auto"], Tag(WORD)] | Counts,
    either("same, auto, or a list such as [1, 2, 4]", "same", "auto"),
]
HeadDims = Annotated[Annotated[Literal["same"], Tag(WORD)] | Counts, either("same, or a list such as [16, 32]", "same")]
Tie = Annotated[
    Annotated[Literal["none", "uniform", "ramp"], Tag(WORD)] | Annotated[StagesSection, Tag(MAPPING)],
    either("none, uniform, ramp, or {stages: n}", "none", "uniform", "ramp"),
]


class SiteSection(Section):
    """``sites: {"role=cross": {heads: [1, 2, 4]}}``: what differs at some sites."""

    heads: Heads | None = None
    kv_heads: KvHeads | None = None
    head_dims: HeadDims | None = None

    def build(self) -> SiteOptions:
        """The overrides as headtune's value."""
        return SiteOptions(heads=_heads(self.heads), kv_heads=self.kv_heads, head_dims=self.head_dims)


class ParamRangeSection(Section):
    """``params: {lr: {low: 1e-4, high: 1e-2, log: true}}``."""

    low: Number
    """the smallest value"""
    high: Number
    """the largest value"""
    log: bool = False
    type: Literal["int", "float"] | None = None
    default: Number | None = None

    @property
    def is_real(self) -> bool:
        """Whether the numbers between are real; else they are whole."""
        return self.type != "int"

    def problems(self) -> Iterable[Problem]:
        """What the bounds and the default must keep."""
        numbers = {"low": self.low, "high": self.high, "default": self.default}
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        if self.type is None and whole:
            yield (), f"low {self.low} and high {self.high} are both whole: add `type: int` or `type: float`"
        if self.type == "int":
            for name, number in numbers.items():
                if isinstance(number, float):
                    yield (name,), f"must be a whole number under `type: int` (got {number})"
        yield from rules.number_range(self.low, self.high, self.default, log=self.log)


class ParamChoiceSection(Section):
    """``params: {optimizer: {choices: [adamw, sgd], default: sgd}}``; the list alone does without a default."""

    choices: list[Scalar]
    """the values to choose from"""
    default: Scalar | None = None

    def problems(self) -> Iterable[Problem]:
        """What the choices and the default must keep."""
        return rules.choices(self.choices, self.default)


def _sound(choices: list[str | bool | int | float]) -> list[str | bool | int | float]:
    problems = [(keys[1:], sentence) for keys, sentence in rules.choices(choices)]
    if problems:
        raise broken(problems)
    return choices


def _param_shape(value: object) -> str | None:
    if isinstance(value, dict):
        return CHOICES if "choices" in value else MAPPING
    return LIST if isinstance(value, list) else None


AnyParam = Annotated[
    Annotated[list[Scalar], AfterValidator(_sound), Tag(LIST)]
    | Annotated[ParamChoiceSection, Tag(CHOICES)]
    | Annotated[ParamRangeSection, Tag(MAPPING)],
    kind("a range such as {low: 0.0, high: 1.0} or a list of choices", _param_shape),
]


class SpaceSection(Section):
    """Which head counts, and which other params, are searched."""

    hold: Hold
    """width (head_dim = width / heads; parameters stay) or head_dim (width = heads × head_dim; parameters shrink)"""
    weights: Literal["fresh", "keep"]
    """fresh (every trial trains what `model` returns) or keep (it returns a trained model, whose heads are pruned)"""
    heads: Heads = "auto"
    tie: Tie = "none"
    sites: Annotated[dict[str, SiteSection], EMPTY] = Field(default_factory=dict)
    kv_heads: KvHeads = "same"
    head_dims: HeadDims = "same"
    params: Annotated[dict[Identifier, AnyParam], EMPTY] = Field(default_factory=dict)

    def problems(self) -> Iterable[Problem]:
        """What trained weights do not allow."""
        head_dims: dict[tuple[str, ...], object] = {("head_dims",): self.head_dims}
        for selector, section in self.sites.items():
            head_dims["sites", selector, "head_dims"] = section.head_dims
        return rules.kept_weights(self.weights, self.hold, head_dims)

    def build(self, head_dim: HeadDimConstraint | None = None) -> SpaceOptions:
        """The space as headtune's value, with the wanted head dimensions of the section ``constraints``."""
        heads = _heads(self.heads)
        return SpaceOptions(
            hold=self.hold,
            heads="auto" if heads is None else heads,
            tie=self.tie.build() if isinstance(self.tie, StagesSection) else self.tie,
            sites={selector: section.build() for selector, section in self.sites.items()},
            kv_heads=self.kv_heads,
            head_dims=self.head_dims,
            head_dim=head_dim,
        )


def _heads(heads: Heads | None) -> Literal["auto"] | list[int] | HeadRange | None:
    return heads.build() if isinstance(heads, RangeSection) else heads
