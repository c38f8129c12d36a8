"""A model whose layers keep no activations for the backward pass, and compute them again."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from headtune.heads.site import AttentionSite
from headtune.surgery.transaction import copied
from headtune.timing.long.switched import Switched


class Recomputed(nn.Module):
    """A layer whose activations are computed again in the backward pass, under the same random numbers.

    Whatever is asked of it beside ``forward``, the layer answers. A cache of transformers is kept from it, as they do
    themselves: computed again, it would be filled twice.

    References:
        Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.

    Args:
        layer: what is called.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """What the layer returns."""
        if not torch.is_grad_enabled():
            return self.layer(*args, **kwargs)
        args = tuple(map(_uncached, args))
        kwargs = {name: _uncached(value) for name, value in kwargs.items()}
        return checkpoint(self.layer, *args, use_reentrant=False, **kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """What the layer has of that name, where this module has nothing."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):  # how it is copied and pickled is not the layer's matter
                raise
            return getattr(super().__getattr__("layer"), name)


def _uncached(value: Any) -> Any:  # noqa: ANN401
    """None for a cache of transformers."""
    caches = sys.modules.get("transformers.cache_utils")
    return None if caches is not None and isinstance(value, caches.Cache) else value


def checkpointed(model: nn.Module, sites: Sequence[AttentionSite]) -> Switched:
    """A copy of *model* in which each layer that holds a site computes its activations again in the backward pass.

    Gradients stay the same, dropout included. A layer is the innermost entry of an ``nn.ModuleList`` or
    ``nn.Sequential`` around a site; the site itself where it is the only such entry.

    Args:
        model: left as it is.
        sites: what ``headtune.sites`` returned for it.

    Raises:
        SurgeryError: the model cannot be copied.
    """
    copy = copied(model)
    layers = {site.path: _layer(copy, site.path) for site in sites}
    chosen = {id(layer): layer for path in layers.values() if path and (layer := copy.get_submodule(path))}
    wrapped = {key: Recomputed(layer) for key, layer in chosen.items()}
    for parent in tuple(copy.modules()):
        for name, child in list(parent._modules.items()):  # a layer that is held twice stays one
            if id(child) in wrapped:
                parent.add_module(name, wrapped[id(child)])
    return Switched(
        model=copy,
        paths=tuple(path for path, layer in layers.items() if layer is not None),
        left_out={
            path: "no nn.ModuleList or nn.Sequential holds a layer with it; keep the layers in one"
            for path, layer in layers.items()
            if layer is None
        },
    )


def _layer(model: nn.Module, path: str) -> str | None:
    """Path of the layer that holds the site at *path*."""
    around = [one for one in _upwards(path) if _is_entry(model, one)]
    return next((one for one in around if one != path), around[0] if around else None)


def _is_entry(model: nn.Module, path: str) -> bool:
    holder = model.get_submodule(path.rpartition(".")[0])
    return isinstance(holder, nn.ModuleList | nn.Sequential)


def _upwards(path: str) -> Iterator[str]:
    """The path itself, and those around it up to the model's own children."""
    while path:
        yield path
        path = path.rpartition(".")[0]
