"""How a person hands over what ``forward`` takes."""

import copy
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError

Inputs: TypeAlias = tuple[object, ...] | Mapping[str, object]
"""Positional arguments of ``forward`` as a tuple, or keyword arguments as a mapping."""

T = TypeVar("T")


def check_inputs(inputs: object) -> None:
    """Refuse inputs that are neither a tuple nor a mapping.

    Raises:
        SurgeryError: saying how to write them.
    """
    if not isinstance(inputs, tuple | Mapping):
        raise SurgeryError(_wrong_type(inputs))


def call(model: nn.Module, inputs: Inputs) -> object:
    """``model(*inputs)`` or ``model(**inputs)``, with an :func:`own_copy` of what is in them."""
    if isinstance(inputs, tuple):
        return model(*(own_copy(inputs)))
    return model(**own_copy(dict(inputs)))


def own_copy(value: T) -> T:
    """A copy for a forward pass that may write into what it is given, take from it, or fill it, such as a cache.

    What is the same object twice, such as one sequence as queries and keys, stays so. Modules and what cannot be copied
    are handed on as they are.
    """
    copied: T = _copied(value, {})
    return copied


def _copied(value: Any, memo: dict[int, Any]) -> Any:  # noqa: ANN401
    if isinstance(value, nn.Module):
        return value
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, Tensor):
        # deepcopy refuses tensors that are part of a graph; a copy made in inference mode could take no gradients.
        with torch.inference_mode(False), torch.no_grad():
            made: Any = value.clone().requires_grad_(value.requires_grad)
    elif type(value) is dict:
        made = {key: _copied(item, memo) for key, item in value.items()}
    elif type(value) in (list, tuple):
        made = type(value)(_copied(item, memo) for item in value)
    else:
        made = _deep_copy(value, memo)
    memo[id(value)] = made
    return made


def _deep_copy(value: Any, memo: dict[int, Any]) -> Any:  # noqa: ANN401
    try:
        with torch.inference_mode(False):
            return copy.deepcopy(value, memo)
    except Exception:  # classes raise whatever they like
        return value


def _wrong_type(inputs: object) -> str:
    if isinstance(inputs, Tensor):
        remedy = "write (tensor,) for one positional argument, or {'name': tensor} for a keyword argument"
    elif isinstance(inputs, list):
        remedy = "write tuple(inputs) for positional arguments"
    else:
        remedy = "give the positional arguments of forward as a tuple, or its keyword arguments as a dict"
    return f"inputs came as {type(inputs).__name__}: {remedy}"
