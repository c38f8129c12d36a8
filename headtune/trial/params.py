"""Extra hyper-parameters of a study, searched beside the head counts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import headtune.rules as rules
from headtune.errors import InputError

ParamValue = float | int | str | bool

EXACT = 2**53
"""Samplers and databases keep whole numbers as floats, which are exact so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatParam:
    """A real number in ``[low, high]``, on a log scale if asked.

    Attributes:
        default: what baselines train with; the (geometric) middle if ``None``.

    Raises:
        InputError: the ends are no numbers or the wrong way round, or the default lies outside.
    """

    low: float
    high: float
    log: bool = False
    default: float | None = None

    def __post_init__(self) -> None:
        _check_range(self, rules.number)

    @property
    def baseline(self) -> float:
        """The value that baselines train with."""
        if self.default is not None:
            return self.default
        return math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IntParam:
    """A whole number in ``[low, high]``, on a log scale if asked.

    Raises:
        InputError: the ends are no whole numbers or the wrong way round, or the default lies outside.
    """

    low: int
    high: int
    log: bool = False
    default: int | None = None

    def __post_init__(self) -> None:
        _check_range(self, rules.at_least(-EXACT, EXACT))

    @property
    def baseline(self) -> int:
        """The value that baselines train with."""
        if self.default is not None:
            return self.default
        return round(math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceParam:
    """One of several values without an order; the first is the default.

    Raises:
        InputError: there is no choice, one is there twice or is no plain value, or the default is none of them.
    """

    choices: tuple[ParamValue, ...]
    default: ParamValue | None = None

    def __post_init__(self) -> None:
        problems = rules.broken(
            {"choices": (self.choices, rules.a(tuple, "a tuple of values, such as ('adamw', 'sgd')"))}
        )
        if not problems:
            every = {f"choices.{index}": (choice, rules.scalar) for index, choice in enumerate(self.choices)}
            problems = rules.broken(every) or rules.sentences(rules.choices(self.choices, self.default))
        if problems:
            raise InputError(*(f"ChoiceParam.{problem}" for problem in problems))

    @property
    def baseline(self) -> ParamValue:
        """The value that baselines train with."""
        return self.choices[0] if self.default is None else self.default


Param = FloatParam | IntParam | ChoiceParam


def baseline_values(params: Mapping[str, Param]) -> dict[str, ParamValue]:
    """What baselines train with: each param's default, else its middle."""
    return {name: param.baseline for name, param in params.items()}


def _check_range(param: FloatParam | IntParam, rule: rules.Rule) -> None:
    values = {"low": (param.low, rule), "high": (param.high, rule), "default": (param.default, rules.optional(rule))}
    problems = rules.broken({**values, "log": (param.log, rules.truth)})
    if not problems:
        problems = rules.sentences(rules.number_range(param.low, param.high, param.default, log=param.log))
    if problems:
        raise InputError(*(f"{type(param).__name__}.{problem}" for problem in problems))
