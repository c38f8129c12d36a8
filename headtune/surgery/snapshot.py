"""A model's state, kept so that whatever is done to it can be undone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

_CONTAINERS = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Which attributes, parameters, buffers and submodules every module had, and what the buffers held.

    Parameters are kept by reference: surgery puts new ones in their place and never writes into them. It costs the
    memory of the buffers.
    """

    modules: tuple[tuple[nn.Module, dict[str, object], dict[str, dict[str, object]]], ...]
    buffers: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, model: nn.Module) -> "Snapshot":
        """The state of *model* now."""
        modules = tuple(
            (module, dict(vars(module)), {name: dict(vars(module)[name]) for name in _CONTAINERS})
            for module in model.modules()
        )
        with torch.no_grad():
            buffers = tuple((buffer, buffer.clone()) for buffer in model.buffers() if not buffer.is_meta)
        return cls(modules=modules, buffers=buffers)

    def restore(self) -> None:
        """Put everything back as it was."""
        for module, attributes, containers in self.modules:
            vars(module).clear()
            vars(module).update(attributes)
            for name, content in containers.items():
                vars(module)[name].clear()
                vars(module)[name].update(content)
        with torch.no_grad():
            for buffer, value in self.buffers:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
