"""Making a model that was built anew what surgery had made of its twin, but for the values of its tensors."""

from collections.abc import Mapping

from torch import Tensor, nn

import headtune.rules as rules
from headtune.errors import StorageError
from headtune.heads.count import HeadCount
from headtune.nn import HeadedAttention, SharedLinear
from headtune.surgery.adapters.attributes import changed_copy, fields_of
from headtune.surgery.adapters.input_sized import dress, undress
from headtune.surgery.adapters.ownership import replace_module
from headtune.surgery.adapters.replacement import inherit
from headtune.surgery.saving.document import headed_options, shared_options
from headtune.surgery.saving.edits import Edits, edits_of, mark
from headtune.surgery.saving.values import Json, from_json


def rebuilt(model: nn.Module, modules: Mapping[str, Json]) -> nn.Module:
    """The model with every change that was written down, which may be made already.

    Args:
        model: as its builder returns it; it is edited.
        modules: what :func:`described_edits` returned.

    Returns:
        *model*, or the block that stands in its stead.

    Raises:
        StorageError: *modules* is damaged, or names modules that the model does not have (every one).
    """
    if not isinstance(modules, dict) or not all(isinstance(changes, dict) for changes in modules.values()):
        raise StorageError(f"what surgery changed is damaged{rules.came(modules)}; save the model again")
    known = {path for path, _ in model.named_modules()}
    missing = [
        f"{path}: {type(model).__name__} has no such module, where the saved model has a changed one"
        for path in modules
        if path not in known
    ]
    if missing:
        raise StorageError(*missing)
    path = ""
    try:
        for path, changes in modules.items():
            if "headed" in changes:
                model = _with_headed(model, path, changes["headed"])
            if "shared" in changes:
                model = _with_shared(model, path, changes["shared"])
        for path, changes in modules.items():
            _change(model.get_submodule(path), changes)
    except Exception as error:  # what is damaged can raise anything
        raise StorageError(
            f"{path or 'the model'}: what surgery changed does not fit {type(model.get_submodule(path)).__name__} "
            f"({error!r}); build must return the architecture that was saved, and the file must be whole"
        ) from error
    return model


def _with_headed(model: nn.Module, path: str, options: Mapping[str, Json]) -> nn.Module:
    old = model.get_submodule(path)
    if isinstance(old, HeadedAttention) and headed_options(old) == options:
        return model
    tensor = next(old.parameters())
    new = HeadedAttention(**options, device=tensor.device, dtype=tensor.dtype)
    inherit(new, old)
    return replace_module(model, old, new)


def _with_shared(model: nn.Module, path: str, options: Mapping[str, Json]) -> nn.Module:
    old = model.get_submodule(path)
    if isinstance(old, SharedLinear) and shared_options(old) == options:
        return model
    weight = old.get_parameter("weight")
    new = SharedLinear(**options, device=weight.device, dtype=weight.dtype)
    inherit(new, old)
    return replace_module(model, old, new)


def _change(module: nn.Module, changes: Mapping[str, Json]) -> None:
    attributes, fields = changes.get("attributes", {}), changes.get("fields", [])
    for name, value in attributes.items():
        setattr(module, name, from_json(value))
    for name, field, value in fields:
        config = vars(module)[name]
        if fields_of(config)[field] != (new := from_json(value)):
            setattr(module, name, changed_copy(config, {field: new}))
    tensors = changes.get("tensors", {})
    for name, described in tensors.items():
        _change_tensor(module, name, described)
    if (disguise := changes.get("disguise")) is not None:
        linears = [module.get_submodule(path) for path in disguise["linears"]]
        undress(module, linears)
        dress(module, linears, disguise["width"])
    edits = Edits(
        attributes=frozenset(attributes),
        fields=frozenset((name, field) for name, field, _ in fields),
        tensors=frozenset(tensors),
        count=HeadCount(*changes["count"]) if "count" in changes else None,
    )
    mark(module, edits_of(module).followed_by(edits))


def _change_tensor(module: nn.Module, name: str, described: Json) -> None:
    """Give the module a tensor of the described shape, or the described one."""
    is_parameter = name in module._parameters
    old = module._parameters[name] if is_parameter else module._buffers[name]
    if described is None:
        setattr(module, name, None)
    elif isinstance(described, dict):
        value = from_json(described)
        assert isinstance(value, Tensor)
        setattr(module, name, value if old is None or old.is_meta else value.to(old.device))
    elif old is None or list(old.shape) != described:
        like = next(module.parameters()) if old is None else old
        new = like.detach().new_zeros(described)
        setattr(module, name, nn.Parameter(new, like.requires_grad) if is_parameter else new)
