"""What a model puts out, and whether two models put out the same."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from headtune.surgery.inputs import Inputs, call
from headtune.surgery.rng import isolated
from headtune.surgery.snapshot import Snapshot

_ROUNDING = 200
"""Units of rounding that sums in another order may differ by, of the largest value."""


def outputs(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The floating-point tensors that *model* returns in eval mode, however nested; the model is left as it was."""
    snapshot = Snapshot.of(model)
    try:
        with isolated(model), torch.no_grad():
            model.eval()
            return list(_tensors(call(model, inputs)))
    finally:
        snapshot.restore()


def furthest_apart(left: Sequence[Tensor], right: Sequence[Tensor]) -> float | None:
    """How far two models' outputs differ, where that is more than rounding; ``None`` where it is not.

    Tensors whose shape depends on the heads, such as attention weights, are not compared.
    """
    pairs = [(one, other) for one, other in zip(left, right, strict=False) if one.shape == other.shape and one.numel()]
    if not pairs:
        return float("nan")
    for one, other in pairs:
        gap = float((one.double() - other.double()).abs().nan_to_num().max())
        largest = float(other.double().abs().nan_to_num().max())
        if bool((one.isnan() != other.isnan()).any()) or gap > _ROUNDING * torch.finfo(one.dtype).eps * max(largest, 1):
            return gap
    return None


def _tensors(value: object) -> Sequence[Tensor]:
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, list | tuple) else []
