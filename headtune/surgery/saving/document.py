"""What surgery changed in a model, with the values it has now, as JSON."""

from collections.abc import Iterator

from torch import nn

from headtune.errors import StorageError
from headtune.heads.plan import HeadPlan
from headtune.nn import HeadedAttention, SharedLinear
from headtune.surgery.adapters.attributes import fields_of
from headtune.surgery.adapters.input_sized import disguise_of
from headtune.surgery.saving.edits import edits_of
from headtune.surgery.saving.values import Json, NotJson, to_json

_HEADED = (
    *("embed_dim", "num_heads", "num_kv_heads", "head_dim", "kdim", "vdim"),
    *("dropout", "add_zero_attn", "batch_first"),
)


def described_edits(model: nn.Module) -> Json:
    """For each module that surgery changed, what rebuilds it from the unchanged one, by path.

    Raises:
        StorageError: names every value that JSON cannot hold.
    """
    modules: dict[str, Json] = {}
    problems: list[str] = []
    for path, module in model.named_modules():
        try:
            if found := dict(_described(module)):
                modules[path] = found
        except NotJson as reason:
            problems.append(f"{path or 'the model'}: surgery put {reason} there, which cannot be written down")
    if problems:
        raise StorageError(*problems)
    return modules


def plan_of(model: nn.Module) -> HeadPlan:
    """The counts of the attention blocks, as far as surgery knows them: all of a changed model, none of another."""
    counts = {path: edits_of(module).count for path, module in model.named_modules()}
    return HeadPlan.of({path: count for path, count in counts.items() if count is not None})


def headed_options(block: HeadedAttention) -> dict[str, Json]:
    """What builds another such block."""
    options = {name: vars(block)[name] for name in _HEADED}
    return options | {"bias": block.q_proj.bias is not None, "add_bias_kv": block.bias_k is not None}


def shared_options(linear: SharedLinear) -> dict[str, Json]:
    """What builds another such map."""
    sizes = {"in_features": linear.in_features, "made": linear.made, "out_features": linear.out_features}
    return sizes | {"bias": linear.bias is not None}


def _described(module: nn.Module) -> Iterator[tuple[str, Json]]:
    edits = edits_of(module)
    if edits.count is not None:
        yield "count", list(edits.count)
    if isinstance(module, HeadedAttention):
        yield "headed", headed_options(module)
    if isinstance(module, SharedLinear):
        yield "shared", shared_options(module)
    if edits.attributes:
        yield "attributes", {name: to_json(getattr(module, name)) for name in sorted(edits.attributes)}
    if edits.fields:
        yield "fields", [[name, field, _field(module, name, field)] for name, field in sorted(edits.fields)]
    if edits.tensors:
        yield "tensors", {name: _tensor(module, name) for name in sorted(edits.tensors)}
    if (disguise := disguise_of(module)) is not None:
        yield "disguise", {"width": disguise[0], "linears": list(disguise[1])}


def _field(module: nn.Module, name: str, field: str) -> Json:
    return to_json(fields_of(vars(module)[name])[field])


def _tensor(module: nn.Module, name: str) -> Json:
    """A tensor's shape, or all of a buffer that ``state_dict`` leaves out; None for one that is not there any more."""
    tensor = module._parameters.get(name, module._buffers.get(name))
    if tensor is None:
        return None
    return to_json(tensor) if name in module._non_persistent_buffers_set else list(tensor.shape)
