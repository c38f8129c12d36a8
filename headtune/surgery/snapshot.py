"""A model's state, kept so that whatever is done to it can be undone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Which attributes, parameters, buffers, submodules and hooks every module had, and what the buffers held.

    Dictionaries among the attributes are kept with their content. Parameters are kept by reference: surgery puts new
    ones in their place and never writes into them. It costs the memory of the buffers.
    """

    modules: tuple[tuple[nn.Module, dict[str, object]], ...]
    contents: tuple[tuple[dict[object, object], dict[object, object]], ...]
    buffers: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, model: nn.Module) -> "Snapshot":
        """The state of *model* now."""
        modules = tuple((module, dict(vars(module))) for module in model.modules())
        contents = tuple(
            (value, dict(value))
            for _, attributes in modules
            for value in attributes.values()
            if isinstance(value, dict)
        )
        with torch.no_grad():
            buffers = tuple((buffer, buffer.clone()) for buffer in model.buffers() if not buffer.is_meta)
        return cls(modules=modules, contents=contents, buffers=buffers)

    def restore(self) -> None:
        """Put everything back as it was."""
        for module, attributes in self.modules:
            vars(module).clear()
            vars(module).update(attributes)
        for dictionary, content in self.contents:
            dictionary.clear()
            dictionary.update(content)
        with torch.no_grad():
            for buffer, value in self.buffers:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
