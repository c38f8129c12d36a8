"""Who holds a parameter or a module."""

from collections.abc import Iterable, Iterator

from torch import Tensor, nn
from torch.nn.utils import parametrize

from headtune.surgery.storage import storage_of


def owner(model: nn.Module, parameter: str) -> tuple[str, nn.Module]:
    """Path and module that hold the parameter of that name."""
    path, _, _ = parameter.rpartition(".")
    return path, model.get_submodule(path)


def tied(model: nn.Module, names: Iterable[str]) -> tuple[str, ...]:
    """For each of the named parameters that another module holds too: both names, as words for a message."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    holders: dict[int, list[str]] = {}
    for holder, parameter in parameters.items():
        holders.setdefault(id(parameter), []).append(holder)
    return tuple(
        f"{name} is also {other}"
        for name in names
        for other in holders[id(parameters[name])]
        if other != name and owner(model, other)[1] is not owner(model, name)[1]
    )


def shared(model: nn.Module, copy: nn.Module) -> tuple[str, ...]:
    """Names of the modules, or else of the parameters and buffers, that a *copy* of *model* holds in common with it."""
    modules = {id(module) for module in model.modules()}
    common = [path for path, module in copy.named_modules() if id(module) in modules]
    if common:
        inner = {
            path for path in common for above in common if path != above and path.startswith(above and f"{above}.")
        }
        return tuple(path or "the model" for path in common if path not in inner)
    storages = {storage for _, tensor in _tensors(model) if (storage := storage_of(tensor)) is not None}
    return tuple(name for name, tensor in _tensors(copy) if storage_of(tensor) in storages)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Put *new* wherever *model* holds *old*; returns *new* where the model itself is *old*."""
    if model is old:
        return new
    for parent in model.modules():
        for name, child in list(parent._modules.items()):  # named_children would list a shared child once
            if child is old:
                parent.add_module(name, new)
    return model


def why_not_replaced(model: nn.Module, block: nn.Module, path: str) -> str | None:
    """Why another module cannot take the place of *block* at *path*: computed or tied weights, a compiled module."""
    if any(parametrize.is_parametrized(module) for module in block.modules()):
        return "its weights are parametrized; call torch.nn.utils.parametrize.remove_parametrizations first"
    parent = model.get_submodule(path.rpartition(".")[0])
    if parent is not block and type(parent).__name__ == "OptimizedModule":
        return "torch.compile holds on to this very block; hand over the model before it is compiled"
    prefix = f"{path}." if path else ""
    ties = tied(model, (prefix + name for name, _ in block.named_parameters()))
    return f"{ties[0]}: untie them first, or change neither" if ties else None
