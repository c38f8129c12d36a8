"""A model's state, kept so that whatever is done to it can be undone."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from headtune.surgery.rng import rewind
from headtune.surgery.storage import storage_of

Container: TypeAlias = dict[Any, Any] | list[Any] | set[Any] | deque[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Which attributes, parameters, buffers, submodules and hooks every module had, and what these held.

    Lists, dictionaries and sets among the attributes are kept with their content, however nested, and random generators
    with their state. Parameters are kept with the tensor that was theirs, not with its values: surgery puts new ones in
    their place, and :func:`headtune.surgery.writing.values_kept` undoes what a forward pass writes. It costs the memory
    of the buffers and of other tensors.
    """

    modules: tuple[tuple[nn.Module, dict[str, object]], ...]
    contents: tuple[tuple[Container, Container], ...]
    parameters: tuple[tuple[nn.Parameter, Tensor, bool], ...]
    values: tuple[tuple[Tensor, Tensor, bool], ...]
    rewinds: tuple[Callable[[], object], ...]

    @classmethod
    def of(cls, model: nn.Module) -> "Snapshot":
        """The state of *model* now."""
        modules = tuple((module, dict(vars(module))) for module in model.modules())
        held = _held([attributes for _, attributes in modules])
        with torch.no_grad():
            return cls(
                modules=modules,
                contents=tuple((one, _content(one)) for one in held if isinstance(one, dict | list | set | deque)),
                parameters=tuple((one, one.data, one.requires_grad) for one in model.parameters()),
                values=tuple(
                    (one, one.clone(), one.is_leaf)
                    for one in held
                    if isinstance(one, Tensor) and not isinstance(one, nn.Parameter) and not one.is_meta
                ),
                rewinds=tuple(undo for one in held if (undo := rewind(one)) is not None),
            )

    def restore(self) -> None:
        """Put everything back as it was."""
        for module, attributes in self.modules:
            _refill(vars(module), attributes)
        for container, content in self.contents:
            _refill(container, content)
        for undo in self.rewinds:
            undo()
        for parameter, data, required in self.parameters:
            if storage_of(data) is not None and _place(parameter) != _place(data):
                parameter.data = data
            if parameter.requires_grad != required:
                parameter.requires_grad_(required)
        with torch.no_grad():
            for tensor, value, was_leaf in self.values:
                if was_leaf and not tensor.is_leaf:
                    tensor.detach_()  # a cache that was written into while gradients were followed
                if not _equal(tensor, value):
                    tensor.copy_(value)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; its :class:`Snapshot` comes back afterwards, whatever happened inside.

    Modes are set without ``train`` and ``eval``: those of the model's own may write into weights, as those of LoRA
    layers do that merge theirs, which is not undone to the last bit.
    """
    snapshot = Snapshot.of(model)
    try:
        for module in model.modules():
            module.training = False
        yield
    finally:
        snapshot.restore()


def _held(roots: list[dict[str, object]]) -> list[object]:
    """Everything that is held by the *roots*, directly or in containers in them, once each."""
    seen: dict[int, object] = {}
    rest: list[object] = [value for root in roots for value in root.values()]
    while rest:
        value = rest.pop()
        if isinstance(value, str | int | float | None) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, dict):
            rest += value.values()
        elif isinstance(value, list | tuple | set | deque):
            rest += value
    return list(seen.values())


def _content(container: Container) -> Container:
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _refill(container: Container, content: Container) -> None:
    """Give a container its content back; one that has it is left alone."""
    if len(container) == len(content) and all(map(_same, _items(container), _items(content))):
        return
    container.clear()
    if isinstance(container, dict | set):
        container.update(content)
    else:
        container.extend(content)


def _items(container: Container) -> list[object]:
    return [part for pair in container.items() for part in pair] if isinstance(container, dict) else list(container)


def _same(one: object, other: object) -> bool:
    return one is other


def _place(tensor: Tensor) -> tuple[object, ...]:
    return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def _equal(tensor: Tensor, value: Tensor) -> bool:
    """Whether all values are the same, of which NaN is one."""
    if torch.equal(tensor, value):
        return True
    return tensor.shape == value.shape and bool(((tensor == value) | (tensor.isnan() & value.isnan())).all())
