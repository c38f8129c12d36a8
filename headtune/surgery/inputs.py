"""How a person hands over what ``forward`` takes."""

from collections.abc import Mapping
from typing import TypeAlias

from torch import Tensor, nn

from headtune.errors import SurgeryError

Inputs: TypeAlias = tuple[object, ...] | Mapping[str, object]
"""Positional arguments of ``forward`` as a tuple, or keyword arguments as a mapping."""


def check_inputs(inputs: object) -> None:
    """Refuse inputs that are neither a tuple nor a mapping.

    Raises:
        SurgeryError: saying how to write them.
    """
    if not isinstance(inputs, tuple | Mapping):
        raise SurgeryError(_wrong_type(inputs))


def call(model: nn.Module, inputs: Inputs) -> object:
    """``model(*inputs)`` or ``model(**inputs)``."""
    return model(*inputs) if isinstance(inputs, tuple) else model(**inputs)


def _wrong_type(inputs: object) -> str:
    if isinstance(inputs, Tensor):
        remedy = "write (tensor,) for one positional argument, or {'name': tensor} for a keyword argument"
    elif isinstance(inputs, list):
        remedy = "write tuple(inputs) for positional arguments"
    else:
        remedy = "give the positional arguments of forward as a tuple, or its keyword arguments as a dict"
    return f"inputs came as {type(inputs).__name__}: {remedy}"
