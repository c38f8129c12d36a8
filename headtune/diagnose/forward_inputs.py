"""What a loss hands to the model."""

import inspect

import torch
from torch import nn

from headtune.diagnose.arguments import Loss
from headtune.errors import TaskError
from headtune.surgery import Inputs
from headtune.surgery.inputs import own_copy


def forward_inputs(what: str, model: nn.Module, batch: object, loss: Loss, *, instead: str) -> Inputs:
    """The arguments with which *loss* first calls *model* for *batch*, seen as it does.

    Raises:
        TaskError: it does not call the model, or in a way that no names of parameters tell: *what* fails, and what to
            give *instead*.
    """
    seen: list[Inputs] = []

    def see(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not seen:
            given = _arguments(module, args, kwargs, what, instead)
            seen.append(own_copy(given))  # as they are before forward writes into them

    handle = model.register_forward_pre_hook(see, with_kwargs=True)
    try:
        with torch.no_grad():
            loss(model, own_copy(batch))
    finally:
        handle.remove()
    if not seen:
        raise TaskError(
            f"{what}: loss never calls model(…) itself, so the inputs of {type(model).__name__} are unknown; "
            f"{instead}, the arguments of its forward"
        )
    return seen[0]


def _arguments(
    module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], what: str, instead: str
) -> Inputs:
    if not kwargs:
        return args
    if not args:
        return kwargs
    parameters = list(inspect.signature(module.forward).parameters.values())[: len(args)]
    named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(named) < len(args):
        raise TaskError(
            f"{what}: loss calls {type(module).__name__} with arguments without names beside named ones; "
            f"{instead}, the arguments of its forward"
        )
    return dict(zip(named, args, strict=True)) | kwargs
