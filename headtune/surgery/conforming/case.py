"""A family of models, and what an operation on it came to: frozen values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

import headtune.rules as rules
from headtune.errors import SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.surgery.inputs import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A family of models, by one small member.

    Attributes:
        name: of the family.
        build: returns the member, with the same weights each time.
        inputs: what its forward takes; with many different tokens, since models are compared on them.
        rebuild: returns the member as its author would build it with the counts of a plan that keeps every width. The
            re-headed model is compared with it; None where only its counts can be proven.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    rebuild: Callable[[HeadPlan], nn.Module] | None = None

    def __post_init__(self) -> None:
        """Raises SurgeryError for every attribute of the wrong type."""
        problems = rules.broken(
            {
                "name": (self.name, rules.text),
                "build": (self.build, rules.a(Callable, "a function that returns the member")),  # type: ignore[arg-type]
                "inputs": (
                    self.inputs,
                    rules.a((tuple, Mapping), "what forward takes: a tuple, or a dict of keywords"),
                ),
                "rebuild": (self.rebuild, rules.optional(rules.a(Callable, "a function of a plan, or None"))),  # type: ignore[arg-type]
            }
        )
        if problems:
            raise SurgeryError(*(f"Case: {problem}" for problem in problems))

    @property
    def precise_inputs(self) -> Inputs:
        """The inputs with floating-point numbers in float64."""
        if isinstance(self.inputs, Mapping):
            return {name: _precise(value) for name, value in self.inputs.items()}
        return tuple(map(_precise, self.inputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one operation came to.

    Attributes:
        proven: whether it was done, and its result is what it must be; else it was refused.
        words: what was proven, or the reason of the refusal.
    """

    proven: bool
    words: str


def _precise(value: object) -> object:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
