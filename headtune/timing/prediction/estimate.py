"""What goes into a latency model and what comes out of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import headtune.rules as rules
from headtune.errors import InputError
from headtune.heads import HeadPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPlan:
    """A plan whose latency was measured in pairs with the present plan's.

    Attributes:
        plan: the counts.
        ratio: its latency over the present plan's.
        ratio_interval: the ratio's 95 % interval.
        seq_len: the sequence length it was timed at; ``None`` where the task needs none.

    Raises:
        InputError: every value that no measurement gives.
    """

    plan: HeadPlan
    ratio: float
    ratio_interval: tuple[float, float]
    seq_len: int | None = None

    def __post_init__(self) -> None:
        problems = rules.broken(
            {
                "plan": (self.plan, rules.a(HeadPlan, "a HeadPlan")),
                "ratio": (self.ratio, rules.positive),
                "ratio_interval": (self.ratio_interval, rules.interval),
                "seq_len": (self.seq_len, rules.optional(rules.count)),
            }
        )
        if problems:
            raise InputError(*(f"TimedPlan.{problem}" for problem in problems))

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {**asdict(self), "plan": self.plan.to_json(), "ratio_interval": list(self.ratio_interval)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TimedPlan":
        """The inverse of :meth:`to_json`."""
        low, high = data["ratio_interval"]
        return cls(**{**data, "plan": HeadPlan.from_json(data["plan"]), "ratio_interval": (low, high)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number that was not measured itself, with its 95 % interval."""

    value: float
    interval: tuple[float, float]

    def times(self, factor: float) -> "Estimate":
        """The same in another unit; *factor* is above 0."""
        low, high = self.interval
        return Estimate(value=self.value * factor, interval=(low * factor, high * factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutError:
    """How well plans are predicted that the model did not see, by cross-validation.

    Attributes:
        mape: mean of |predicted − measured| / measured.
        spearman: rank correlation of predicted and measured; ``nan`` where the measured are all alike.
        coverage: share of the measured that their 95 % prediction intervals hold.
        plans: how many were held out, one after another.
        folds: how many models were fitted for it.
    """

    mape: float
    spearman: float
    coverage: float
    plans: int
    folds: int
