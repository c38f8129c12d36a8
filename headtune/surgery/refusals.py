"""Models that surgery cannot work on as they come."""

import gc
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager

import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.surgery.snapshot import Snapshot

_WRAPPERS = {
    "DataParallel": "hand over the module inside (model.module) and wrap the result",
    "DistributedDataParallel": "hand over the module inside (model.module) and wrap the result",
    "FullyShardedDataParallel": "apply the plan before sharding",
    "FSDPModule": "apply the plan before sharding",
}


def check_workable(model: object) -> None:
    """Refuse what is no module, and modules that are wrapped for parallel training, scripted, or not initialised yet.

    Raises:
        SurgeryError: with every reason.
    """
    if not isinstance(model, nn.Module):
        raise SurgeryError(f"the model came as {type(model).__name__}: give a torch.nn.Module")
    problems = tuple(dict.fromkeys(_problems(model)))
    if problems:
        raise SurgeryError(*problems)


def check_no_optimizer(model: nn.Module) -> None:
    """Refuse to replace weights in place that an optimizer holds: it would go on with the old ones, in silence.

    Raises:
        SurgeryError: names every such optimizer.
    """
    _check_not_held(model.parameters())


@contextmanager
def optimizers_kept(model: nn.Module) -> Iterator[None]:
    """Undo what the block did to *model* in place if it replaced weights that an optimizer holds, or raised.

    Raises:
        SurgeryError: names every such optimizer.
    """
    held, snapshot = list(model.parameters()), Snapshot.of(model)
    try:
        yield
        left = {id(parameter) for parameter in model.parameters()}
        _check_not_held(parameter for parameter in held if id(parameter) not in left)
    except BaseException:
        snapshot.restore()
        raise


def _check_not_held(parameters: Iterable[nn.Parameter]) -> None:
    held = {id(parameter) for parameter in parameters}
    if _optimizers_of(held):
        gc.collect()  # one that nobody holds any more is none
    if found := _optimizers_of(held):
        raise SurgeryError(
            *(f"{name} holds weights that would be replaced: make it anew afterwards, or take a copy" for name in found)
        )


def _optimizers_of(held: Set[int]) -> list[str]:
    optimizers = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)] if held else []
    return [
        type(one).__name__
        for one in optimizers
        if any(id(parameter) in held for group in one.param_groups for parameter in group["params"])
    ]


def _problems(model: nn.Module) -> Iterator[str]:
    for path, module in model.named_modules():
        place = path or "the model"
        for cls in type(module).__mro__:
            if cls.__name__ in _WRAPPERS:
                yield f"{place} is wrapped in {cls.__name__}: {_WRAPPERS[cls.__name__]}"
        if isinstance(module, torch.jit.ScriptModule):
            yield f"{place} is a TorchScript module, which cannot be watched: give the Python module it was made from"
            return
        if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters(recurse=False)):
            yield f"{place} has lazy parameters that are not initialised: run the model once first"
