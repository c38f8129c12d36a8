"""What a loss hands to the model."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headtune.errors import TaskError
from headtune.surgery import Inputs
from headtune.surgery.inputs import own_copy


def forward_inputs(model: nn.Module, batch: object, loss: Callable[[nn.Module, Any], Tensor]) -> Inputs:
    """The arguments with which *loss* first calls *model* for *batch*, seen as it does.

    Raises:
        TaskError: it does not call the model, or in a way that no names of parameters tell.
    """
    seen: list[Inputs] = []

    def see(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not seen:
            seen.append(own_copy(_arguments(module, args, kwargs)))  # as they are before forward writes into them

    handle = model.register_forward_pre_hook(see, with_kwargs=True)
    try:
        with torch.no_grad():
            loss(model, own_copy(batch))
    finally:
        handle.remove()
    if not seen:
        raise TaskError(
            f"importance: loss never calls model(…) itself, so the inputs of {type(model).__name__} are unknown; "
            "give inputs=…, the arguments of its forward"
        )
    return seen[0]


def _arguments(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> Inputs:
    if not kwargs:
        return args
    if not args:
        return kwargs
    parameters = list(inspect.signature(module.forward).parameters.values())[: len(args)]
    named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(named) < len(args):
        raise TaskError(
            f"importance: loss calls {type(module).__name__} with arguments without names beside named ones; "
            "give inputs=…, the arguments of its forward"
        )
    return dict(zip(named, args, strict=True)) | kwargs
