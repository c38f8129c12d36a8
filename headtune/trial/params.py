"""Extra hyper-parameters of a study, searched beside the head counts."""

import math
from dataclasses import dataclass

ParamValue = float | int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatParam:
    """A real number in ``[low, high]``, on a log scale if asked.

    Attributes:
        default: what baselines train with; the (geometric) middle if ``None``.
    """

    low: float
    high: float
    log: bool = False
    default: float | None = None

    @property
    def baseline(self) -> float:
        """The value that baselines train with."""
        if self.default is not None:
            return self.default
        return math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IntParam:
    """A whole number in ``[low, high]``, on a log scale if asked."""

    low: int
    high: int
    log: bool = False
    default: int | None = None

    @property
    def baseline(self) -> int:
        """The value that baselines train with."""
        if self.default is not None:
            return self.default
        return round(math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceParam:
    """One of several values without an order; the first is the default."""

    choices: tuple[ParamValue, ...]
    default: ParamValue | None = None

    @property
    def baseline(self) -> ParamValue:
        """The value that baselines train with."""
        return self.choices[0] if self.default is None else self.default


Param = FloatParam | IntParam | ChoiceParam
