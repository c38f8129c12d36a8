"""Noting what an operation changed, by comparing the model with how it was."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headtune.heads.plan import HeadPlan
from headtune.nn import HeadedAttention, SharedLinear
from headtune.surgery.adapters.attributes import fields_of, is_config
from headtune.surgery.saving.edits import NONE, Edits, edits_of, is_mark, mark
from headtune.surgery.saving.pretrained import inscribe

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModuleBefore:
    kind: type[nn.Module]
    attributes: Mapping[str, object]
    tensors: Mapping[str, Tensor | None]
    edits: Edits


class Earlier:
    """What the modules of a model held before an operation, by path; it keeps references, not copies."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = {
            path: _ModuleBefore(
                kind=type(module),
                attributes=dict(vars(module)),
                tensors={**module._parameters, **module._buffers},
                edits=edits_of(module),
            )
            for path, module in model.named_modules()
        }

    def edits(self, path: str, module: nn.Module) -> Edits:
        """Everything that surgery has changed so far in what stands at *path* now."""
        before = self._modules.get(path)
        if before is None or before.kind is not type(module):
            return Edits(attributes=frozenset({"__class__"}))
        return before.edits.followed_by(
            Edits(
                attributes=frozenset(_attributes(before, module)),
                fields=frozenset(_fields(before, module)),
                tensors=frozenset(_tensors(before, module)),
            )
        )


def noted(model: nn.Module, earlier: Earlier, plan: HeadPlan) -> nn.Module:
    """The model, with the mark of what an operation changed on each of its modules.

    Args:
        model: as the operation left it.
        earlier: taken before the operation.
        plan: what its attention blocks compute now.
    """
    counts = dict(plan.counts)
    ours = [module for module in model.modules() if isinstance(module, HeadedAttention | SharedLinear)]
    whole = {id(part) for module in ours for part in module.modules()}
    for path, module in model.named_modules():
        # Modules of headtune say themselves how they are built.
        edits = NONE if id(module) in whole else earlier.edits(path, module)
        mark(module, edits.followed_by(Edits(count=counts.get(path))))
    inscribe(model)
    return model


def _changed(before: _ModuleBefore, module: nn.Module) -> Iterator[tuple[str, object, object]]:
    """Name, old and new value of each attribute that differs."""
    for name, new in vars(module).items():
        old = before.attributes.get(name, _ABSENT)
        if name not in _OF_EVERY_MODULE and not is_mark(name) and not _same(old, new):
            yield name, old, new


def _attributes(before: _ModuleBefore, module: nn.Module) -> Iterator[str]:
    for name, old, new in _changed(before, module):
        if not (type(old) is type(new) and is_config(name, new)):
            yield name


def _fields(before: _ModuleBefore, module: nn.Module) -> Iterator[tuple[str, str]]:
    for name, old, new in _changed(before, module):
        if type(old) is type(new) and is_config(name, new):
            held = fields_of(old)
            for field, value in fields_of(new).items():
                if not _same(held.get(field, _ABSENT), value):
                    yield name, field


def _tensors(before: _ModuleBefore, module: nn.Module) -> Iterator[str]:
    for name, new in (*module._parameters.items(), *module._buffers.items()):
        old = before.tensors.get(name)
        # The values of a buffer that state_dict leaves out would not be saved otherwise.
        valued = name in module._non_persistent_buffers_set
        if not (_same(old, new) if valued else _shape(old) == _shape(new)):
            yield name


def _shape(tensor: Tensor | None) -> torch.Size | None:
    return None if tensor is None else tensor.shape


def _same(old: object, new: object) -> bool:
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        alike = old.shape == new.shape and old.dtype == new.dtype and not old.is_meta and not new.is_meta
        return alike and torch.equal(old, new)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[key], new[key]) for key in old)
    return isinstance(old, bool | int | float | str | bytes) and old == new
