"""A model's state, kept so that whatever is done to it can be undone."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Which attributes, parameters, buffers, submodules and hooks every module had, and what tensors among them held.

    Dictionaries among the attributes are kept with their content. Parameters are kept by reference: surgery puts new
    ones in their place and never writes into them. It costs the memory of the buffers and of other tensors.
    """

    modules: tuple[tuple[nn.Module, dict[str, object]], ...]
    contents: tuple[tuple[dict[object, object], dict[object, object]], ...]
    values: tuple[tuple[Tensor, Tensor, bool], ...]

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
        attributes = (value for _, held in modules for value in held.values() if isinstance(value, Tensor))
        with torch.no_grad():
            values = tuple(
                (one, one.clone(), one.is_leaf) for one in (*model.buffers(), *attributes) if not one.is_meta
            )
        return cls(modules=modules, contents=contents, values=values)

    def restore(self) -> None:
        """Put everything back as it was."""
        for module, attributes in self.modules:
            vars(module).clear()
            vars(module).update(attributes)
        for dictionary, content in self.contents:
            dictionary.clear()
            dictionary.update(content)
        with torch.no_grad():
            for tensor, value, was_leaf in self.values:
                if was_leaf and not tensor.is_leaf:
                    tensor.detach_()  # a cache that was written into while gradients were followed
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
