"""How a person hands over what ``forward`` takes."""

from collections.abc import Mapping
from typing import TypeAlias

from torch import Tensor, nn

from headtune.errors import SurgeryError

Inputs: TypeAlias = tuple[object, ...] | Mapping[str, object]
"""Positional arguments of ``forward`` as a tuple, or keyword arguments as a mapping."""


def call(model: nn.Module, inputs: Inputs) -> object:
    """``model(*inputs)`` or ``model(**inputs)``.

    Raises:
        SurgeryError: *inputs* is neither a tuple nor a mapping, or the forward pass raised.
    """
    if not isinstance(inputs, tuple | Mapping):
        raise SurgeryError(_wrong_type(inputs))
    try:
        return model(*inputs) if isinstance(inputs, tuple) else model(**inputs)
    except Exception as error:
        raise SurgeryError(
            f"the forward pass of {type(model).__name__} raised {described(error)}; "
            "give inputs that its forward takes, on the model's device"
        ) from error


def described(error: Exception) -> str:
    """The error's type and first line."""
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _wrong_type(inputs: object) -> str:
    if isinstance(inputs, Tensor):
        remedy = "write (tensor,) for one positional argument, or {'name': tensor} for a keyword argument"
    elif isinstance(inputs, list):
        remedy = "write tuple(inputs) for positional arguments"
    else:
        remedy = "give the positional arguments of forward as a tuple, or its keyword arguments as a dict"
    return f"inputs came as {type(inputs).__name__}: {remedy}"
