"""One call of what is timed, and what it needs around it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor


def _nothing() -> None:
    """There is nothing to renew."""


def _none() -> Iterable[Tensor]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of what is timed.

    Attributes:
        call: does it once.
        renew: puts back what calls use up; not timed.
        held: tensors beside the model's own and its inputs that live from call to call.
    """

    call: Callable[[], object]
    renew: Callable[[], None] = _nothing
    held: Callable[[], Iterable[Tensor]] = _none
