"""Numbers that a block derived from its head_dim when it was built, above all the scale of its scores."""

import re
from math import isclose

import torch
from torch import Tensor

_NAME = re.compile(
    r"((attn|attention|softmax|qk|scores?|dot|dk|d_k|head|sm)_)?(scale|scaling)(_factor)?|temperature|(inv_)?norm_factor"
    r"|(inv_)?sqrt_\w+|\w+_sqrt"
)
_POWERS = (-0.5, 0.5, -1.0, -0.25)


def is_scale(name: str) -> bool:
    """Whether an attribute of that name may hold the scale of scores (not that of a residual branch or of LoRA)."""
    return _NAME.fullmatch(name.lower().lstrip("_")) is not None


def rescaled(value: float, before: int, after: int, tolerance: float = 1e-5) -> float:
    """The value for another head_dim, if it is a power of the present one; else the value itself.

    The power is -1/2, 1/2, -1 or -1/4. At a head_dim of 1, where all powers are 1, it is taken for -1/2.
    """
    for power in _POWERS:
        if isclose(value, before**power, rel_tol=tolerance):
            return float(after**power)
    return value


def rescaled_tensor(value: Tensor, before: int, after: int) -> Tensor:
    """The same for a tensor of one element; any other tensor comes back as it is."""
    if value.numel() != 1 or value.is_meta or not value.is_floating_point():
        return value
    number = float(value.detach())
    new = rescaled(number, before, after, tolerance=4 * torch.finfo(value.dtype).eps)
    if new == number:
        return value
    tensor = torch.full_like(value, new, requires_grad=False)
    return torch.nn.Parameter(tensor, value.requires_grad) if isinstance(value, torch.nn.Parameter) else tensor
