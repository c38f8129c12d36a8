"""Projections that make the features of several heads once, and repeat them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headtune.nn import SharedLinear
from headtune.surgery.adapters.linears import features, is_conv1d
from headtune.surgery.adapters.replacement import inherit

Pool = tuple[tuple[int, ...], ...]
"""The features of each head that becomes the same one, in the same order in every head."""


def repeating(linear: nn.Module, pools: Sequence[Pool]) -> SharedLinear:
    """What can stand where *linear* stood, and puts out the first head of each pool for all of the pool."""
    same = {other: one for pool in pools for head in pool[1:] for other, one in zip(head, pool[0], strict=True)}
    count, read = features(linear)
    source = linear.source.tolist() if isinstance(linear, SharedLinear) else range(count)
    made = [feature for feature in range(count) if feature not in same]
    place = {feature: number for number, feature in enumerate(made)}
    weight, bias = linear.get_parameter("weight"), linear._parameters.get("bias")
    new = SharedLinear(read, len(made), len(source), bias is not None, device=weight.device, dtype=weight.dtype)
    kept = torch.tensor(made, device=weight.device)
    rows = weight.detach().T if is_conv1d(linear) else weight.detach()
    new.weight = _like(weight, rows.index_select(0, kept))
    if bias is not None:
        new.bias = _like(bias, bias.detach().index_select(0, kept))
    new.put_out([place[same.get(feature, feature)] for feature in source])
    inherit(new, linear)
    return new


def _like(old: nn.Parameter, values: Tensor) -> nn.Parameter:
    return nn.Parameter(values.contiguous(), old.requires_grad)
