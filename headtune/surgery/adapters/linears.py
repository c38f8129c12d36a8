"""Linear maps as they stand in a model: ``nn.Linear``, and the transposed ``Conv1D`` of transformers."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.utils import parametrize

from headtune.surgery.adapters.drawing import settle_draw
from headtune.surgery.adapters.ownership import owner


def is_conv1d(module: nn.Module) -> bool:
    """Whether *module* is transformers' linear map whose weight is (in, out)."""
    return any(cls.__name__ == "Conv1D" and cls.__module__.startswith("transformers.") for cls in type(module).__mro__)


def features(module: nn.Module) -> tuple[int, int]:
    """How many features a linear map puts out and reads."""
    rows, columns = module.get_parameter("weight").shape
    return (columns, rows) if is_conv1d(module) else (rows, columns)


def made_by_features(module: nn.Module) -> tuple[tuple[str, int], ...]:
    """The parameters whose entries belong to features that a linear map puts out, each with their dimension."""
    places = (("weight", 1 if is_conv1d(module) else 0), ("bias", 0))
    return tuple((name, dim) for name, dim in places if module._parameters.get(name) is not None)


def why_not_linear(model: nn.Module, weight: str) -> str | None:
    """Why the holder of *weight* is no linear map that can change its size, as a sentence; ``None`` when it is one."""
    _, module = owner(model, weight)
    linear = isinstance(module, nn.Linear) or is_conv1d(module)
    if parametrize.is_parametrized(module) or not linear or not weight.endswith("weight"):
        kind = type(module).__name__
        if kind in ("Linear", "Conv1D") and not linear:
            kind = f"{type(module).__module__}.{kind}"
        return f"{weight} belongs to {kind}, and only nn.Linear and Conv1D can change their size"
    return None


def why_not_plain(model: nn.Module, weight: str) -> str | None:
    """Why the parameters beside *weight* are no plain numbers, as a sentence; ``None`` when they are."""
    for parameter in owner(model, weight)[1].parameters(recurse=False):
        if type(parameter) is not nn.Parameter or not parameter.is_floating_point():
            kind = type(parameter).__name__ if type(parameter) is not nn.Parameter else str(parameter.dtype)
            return f"{weight} is a {kind}, not a plain tensor of numbers; cut before sharding or quantisation"
    return None


def resize(model: nn.Module, weight: str, *, made: int | None = None, read: int | None = None) -> None:
    """Let the linear map of that *weight* put out (*made*) or *read* other features; place, hooks and type stay.

    Tensors whose shape changes are new ones, drawn as the model draws them: by the nearest ``_init_weights(module)``
    around it (the custom of transformers and of nanoGPT), else by the module's own ``reset_parameters``; where neither
    explains the values that stood there, from these. The others stay.
    """
    path, module = owner(model, weight)
    before = features(module)
    after = (made or before[0], read or before[1])
    if after == before:
        return
    old = dict(module.named_parameters(recurse=False))
    with torch.no_grad():
        new = _drawn(model, path, module, after)
        again = _drawn(model, path, module, before)
        for name, parameter in new.items():
            settle_draw(parameter, old[name], again[name])
    if after[0] == before[0] and "bias" in old:
        new["bias"] = old["bias"]
    _hold(module, new, after)


def _drawn(model: nn.Module, path: str, module: nn.Module, sizes: tuple[int, int]) -> dict[str, nn.Parameter]:
    """New parameters for these features, which *module* holds from here on."""
    old = dict(module.named_parameters(recurse=False))
    shapes = {"weight": sizes[::-1] if is_conv1d(module) else sizes, "bias": sizes[:1]}
    new = {name: nn.Parameter(one.new_empty(shapes[name]), one.requires_grad) for name, one in old.items()}
    _hold(module, new, sizes)
    _draw(model, path, module)
    return new


def _hold(module: nn.Module, parameters: Mapping[str, nn.Parameter], sizes: tuple[int, int]) -> None:
    for name, parameter in parameters.items():
        module.register_parameter(name, parameter)
    for name, size in zip(("nf", "nx") if is_conv1d(module) else ("out_features", "in_features"), sizes, strict=True):
        setattr(module, name, size)


def _draw(model: nn.Module, path: str, module: nn.Module) -> None:
    parents = [path.rpartition(".")[0]] if path else []
    while parents and parents[-1]:
        parents.append(parents[-1].rpartition(".")[0])
    for parent in parents:
        draw = getattr(model.get_submodule(parent), "_init_weights", None)
        if callable(draw):
            draw(module)
            return
    module.reset_parameters()  # type: ignore[operator]
