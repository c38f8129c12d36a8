"""Layers of peft: a linear map beside adapters, of which a forward pass may use some, or none."""

from collections.abc import Iterator

from torch import nn

REMEDY = "merge its adapters first, by merge_and_unload()"

_SIZED = ("lora_magnitude_vector", "ia3_l")
"""Numbers of an adapter, one for each feature, that stand outside its linear maps (DoRA, IA3)."""


def holds_adapters(block: nn.Module) -> bool:
    """Whether a layer with adapters is in *block*."""
    return any(map(_is_adapted, block.modules()))


def adapted(model: nn.Module, weight: str) -> tuple[str, nn.Module] | None:
    """Path and module of the layer with adapters that *weight* is a part of; None for any other weight."""
    path = weight
    while path:
        path, _, _ = path.rpartition(".")
        if _is_adapted(layer := model.get_submodule(path)):
            return path, layer
    return None


def why_not_cut(model: nn.Module, weight: str) -> str | None:
    """Why a cut would miss a part of the layer that *weight* belongs to, as a sentence; None when it would not."""
    found = adapted(model, weight)
    if found is None:
        return None
    path, layer = found
    if merged := list(getattr(layer, "merged_adapters", ())):
        return f"{path} holds the adapter {merged[0]} in its weight, to be taken out again; {REMEDY}"
    if idle := sorted(set(_adapters(layer)) - set(_active(layer))):
        return f"{path} has an adapter {idle[0]} that this forward pass does not use; delete it, or {REMEDY}"
    if sized := next((name for name in _SIZED if _parts(layer, name)), None):
        return f"{path} has a number for each of its features ({sized}), which would not follow; {REMEDY}"
    return None


def why_not_gated(model: nn.Module, weight: str) -> str | None:
    """Why a factor on a column of *weight* is none on a head, as a sentence; None when it is one."""
    found = adapted(model, weight)
    if found is None or not _parts(found[1], "lora_magnitude_vector"):
        return None
    return f"{found[0]} divides by the norm of its whole weight (DoRA), gates and all; {REMEDY}"


def _is_adapted(module: nn.Module) -> bool:
    """By the name of its base class, so that peft itself is not imported."""
    return any(cls.__name__ == "BaseTunerLayer" for cls in type(module).__mro__)


def _adapters(layer: nn.Module) -> Iterator[str]:
    """The names of the layer's adapters, each once for every kind of part."""
    for name in getattr(layer, "adapter_layer_names", ()):
        yield from _parts(layer, name)


def _parts(layer: nn.Module, name: str) -> list[str]:
    """The names of the adapters that have a part of that kind."""
    parts = getattr(layer, name, None)
    return list(parts) if isinstance(parts, nn.ModuleDict | nn.ParameterDict) else []


def _active(layer: nn.Module) -> list[str]:
    return [] if getattr(layer, "disable_adapters", False) else list(getattr(layer, "active_adapters", ()))
