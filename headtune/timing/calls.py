"""What a model calls its modules with."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

import torch
from torch import nn

from headtune.surgery.inputs import Inputs, call
from headtune.surgery.snapshot import evaluating

T = TypeVar("T")

Call = tuple[tuple[object, ...], Mapping[str, object]]
"""Positional and keyword arguments."""


def calls_of(
    model: nn.Module, inputs: Inputs, modules: Mapping[str, nn.Module], keep: Callable[[nn.Module, Call], T]
) -> dict[str, list[T]]:
    """What is to be kept of each call of some *modules*, by their names, in the order of their first calls.

    The model runs once, in eval mode and without gradients, and is left as it was; what it raises passes through.

    Args:
        model: what runs.
        inputs: its arguments.
        modules: whose calls are seen.
        keep: told a module and the arguments of a call before it is made; they may change afterwards.
    """
    seen: dict[str, list[T]] = {}

    def note(name: str, module: nn.Module, called: Call) -> None:
        seen.setdefault(name, []).append(keep(module, called))

    with torch.no_grad(), evaluating(model), ExitStack() as hooks:
        for name, module in modules.items():
            hooks.enter_context(
                module.register_forward_pre_hook(
                    lambda module, args, kwargs, name=name: note(name, module, (args, kwargs)), with_kwargs=True
                )
            )
        call(model, inputs)
    return seen
