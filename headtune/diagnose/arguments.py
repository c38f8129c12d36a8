"""What every diagnosis is given: batches of the person's data, and the loss by which they enter the model."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor, nn

import headtune.rules as rules
from headtune.errors import InputError, TaskError

Loss = Callable[[nn.Module, Any], Tensor]
"""``(model, batch) -> scalar tensor``."""

Batches = Iterable[Any] | Callable[[], Iterable[Any]]
"""Batches, or a function that returns them."""


_a_loss = rules.a(Callable, "a function: (model, batch) -> scalar tensor")  # type: ignore[arg-type]


def check_arguments(what: str, batches: object, loss: object, paths: object, *, needs_loss: bool = False) -> None:
    """Refuse arguments of the wrong type.

    Raises:
        InputError: naming every one, and *what* was to be done.
    """
    several = "an iterable of batches, or a function that returns one"
    problems = rules.broken(
        {
            "batches": (batches, rules.a((Iterable, Callable), several)),  # type: ignore[arg-type]
            "loss": (loss, _a_loss if needs_loss else rules.optional(_a_loss)),
            "paths": (paths, rules.optional(_list_of_paths)),
        }
    )
    if problems:
        raise InputError(*(f"{what}: {problem}" for problem in problems))


def first_and_rest(what: str, batches: Batches) -> tuple[Any, Iterator[Any]]:
    """The first batch, and an iterator over the others.

    Raises:
        InputError: the function returns no batches.
        TaskError: there is none.
    """
    found = batches() if callable(batches) else batches
    if not isinstance(found, Iterable):
        raise InputError(f"{what}: batches must return an iterable of batches{rules.came(found)}")
    rest, nothing = iter(found), object()
    first = next(rest, nothing)
    if first is nothing:
        raise TaskError(f"{what}: there is no batch; give at least one")
    return first, rest


def _list_of_paths(value: object) -> str:
    return (
        "must be a list of paths, such as ['layers.0.attn']"
        if isinstance(value, str) or not isinstance(value, Iterable)
        else ""
    )
