"""Who holds a parameter or a module."""

from collections.abc import Iterable, Iterator

from torch import nn


def owner(model: nn.Module, parameter: str) -> tuple[str, nn.Module]:
    """Path and module that hold the parameter of that name."""
    path, _, _ = parameter.rpartition(".")
    return path, model.get_submodule(path)


def holders(model: nn.Module, parameter: nn.Parameter) -> tuple[str, ...]:
    """Every name under which *model* holds *parameter*."""
    return tuple(name for name, held in model.named_parameters(remove_duplicate=False) if held is parameter)


def tied(model: nn.Module, names: Iterable[str]) -> tuple[str, ...]:
    """For each of the named parameters that another module holds too: both names, as words for a message."""
    return tuple(f"{name} is also {other}" for name in names for other in _other_holders(model, name))


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Put *new* wherever *model* holds *old*; returns *new* where the model itself is *old*."""
    if model is old:
        return new
    for parent in model.modules():
        for name, child in parent.named_children():
            if child is old:
                parent.add_module(name, new)
    return model


def _other_holders(model: nn.Module, name: str) -> Iterator[str]:
    _, module = owner(model, name)
    parameter = model.get_parameter(name)
    for other in holders(model, parameter):
        if other != name and owner(model, other)[1] is not module:
            yield other
