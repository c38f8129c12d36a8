"""Finding and setting the attributes that tell a hand-written block how many heads it has."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor, nn

from headtune.errors import SurgeryError, in_words
from headtune.heads.count import HeadCount
from headtune.surgery.adapters.names import is_short, meant, quantities, spells_out_heads
from headtune.surgery.adapters.scales import is_scale, rescaled, rescaled_tensor

_EINOPS = "axes_lengths"
"""What a layer of einops was given, by axis; forward reads a tuple made of it."""


def held(block: nn.Module, present: HeadCount) -> frozenset[str]:
    """The quantities (``heads``, ``head_dim``, …) that the block, its submodules and their configurations hold."""
    found = set()
    for module in written(block):
        for values in (vars(module), *(fields_of(config) for _, config in _configs(module))):
            found |= {quantity for _, quantity in _counts(values, present)}
    return frozenset(found)


def set_counts(block: nn.Module, present: HeadCount, wanted: HeadCount) -> None:
    """Set every number that follows from the head counts; a stored scale follows its power of head_dim.

    Scales are looked for in the block, and in submodules without parameters: an adapter or a norm has its own.
    """
    set_values(block, lambda values: {name: quantities(wanted)[meaning] for name, meaning in _counts(values, present)})
    for module in written(block):
        if module is block or next(module.parameters(), None) is None:
            for name, value in _new_scales(module, present.head_dim, wanted.head_dim).items():
                _set(module, name, value)


def set_values(block: nn.Module, new: Callable[[Mapping[str, object]], Mapping[str, object]]) -> None:
    """Set attributes of the block, its submodules and their configurations.

    A configuration object is replaced by a changed copy, since other blocks may read the same one.

    Args:
        block: the module.
        new: from the attributes of one object, those that change, with their new values.
    """
    for module in written(block):
        for name, config in list(_configs(module)):
            if changed := _new_fields(name, config, new):
                _set(module, name, changed_copy(config, changed))
                if name == _EINOPS and f"_{name}" in vars(module):
                    _set(module, f"_{name}", tuple(vars(module)[name].items()))
        for name, value in new(vars(module)).items():
            _set(module, name, value)


def _set(module: nn.Module, name: str, value: object) -> None:
    try:
        setattr(module, name, value)
    except Exception as error:
        raise SurgeryError(
            f"{type(module).__name__} does not let {name} be set: it raises {in_words(error)}; "
            "let it be set, or leave the block as it is"
        ) from error


def _new_fields(
    name: str, config: object, new: Callable[[Mapping[str, object]], Mapping[str, object]]
) -> dict[str, object]:
    """The fields of a configuration that change; among the axes of einops, ``d`` are the features of a head."""
    if name != _EINOPS:
        return dict(new(fields_of(config)))
    axes = {"head_dim" if axis == "d" else axis: length for axis, length in fields_of(config).items()}
    return {"d" if axis == "head_dim" else axis: length for axis, length in new(axes).items()}


def written(block: nn.Module) -> Iterator[nn.Module]:
    """The block and its submodules, without those of PyTorch: the groups of an nn.GroupNorm are not those of heads."""
    return (module for module in block.modules() if not type(module).__module__.startswith("torch.nn."))


def _new_scales(module: nn.Module, before: int, after: int) -> dict[str, object]:
    """The module's own scales for another head_dim: numbers, tensors, buffers, parameters."""
    tensors = (*module.named_buffers(recurse=False), *module.named_parameters(recurse=False))
    new: dict[str, object] = {}
    for name, value in (*vars(module).items(), *tensors):
        if is_scale(name) and isinstance(value, float):
            new[name] = rescaled(value, before, after)
        elif is_scale(name) and isinstance(value, Tensor):
            new[name] = rescaled_tensor(value, before, after)
    return new


def _counts(values: Mapping[str, object], present: HeadCount) -> Iterator[tuple[str, str]]:
    """Names of the values that hold a quantity, each with that quantity."""
    numbers = {name: value for name, value in values.items() if isinstance(value, int) and not isinstance(value, bool)}
    spelled_out = any(spells_out_heads(name) for name in numbers)
    for name, value in numbers.items():
        quantity = meant(name, value, present)
        if quantity is not None and not (spelled_out and is_short(name)):
            yield name, quantity


def _configs(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Attributes that may be configurations."""
    return ((name, value) for name, value in vars(module).items() if is_config(name, value))


def is_config(name: str, value: object) -> bool:
    """Whether an attribute may be a configuration: a dict with string keys, or an object that holds attributes."""
    if isinstance(value, dict):
        return not name.startswith("_") and all(isinstance(key, str) for key in value)
    holds = dataclasses.is_dataclass(value) or bool(type(value).__dictoffset__)
    return holds and not callable(value) and not isinstance(value, Tensor)


def fields_of(config: object) -> Mapping[str, object]:
    """What a configuration holds, by name."""
    if isinstance(config, dict):
        return config
    added = vars(config) if type(config).__dictoffset__ else {}
    if dataclasses.is_dataclass(config):
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)} | added
    return added


def changed_copy(config: object, changed: Mapping[str, object]) -> object:
    """A copy of a configuration in which some values are others."""
    if isinstance(config, dict):
        return {**config, **changed}
    new = copy.copy(config)
    for name, value in changed.items():
        object.__setattr__(new, name, value)  # also on frozen dataclasses, without running their checks twice
    return new
