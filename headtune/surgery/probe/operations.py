"""The PyTorch functions that the probe knows, each under all of its names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

SDPA = F.scaled_dot_product_attention
MULTI_HEAD = F.multi_head_attention_forward

MATMUL = frozenset({torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm})
RMATMUL = frozenset({Tensor.__rmatmul__})
BADDBMM = frozenset({torch.baddbmm, Tensor.baddbmm, Tensor.baddbmm_})
EINSUM = frozenset({torch.einsum})
SOFTMAX = frozenset({torch.softmax, F.softmax, Tensor.softmax, torch.special.softmax})

LINEAR = frozenset({F.linear})
ADDMM = frozenset({torch.addmm, Tensor.addmm})
CONV = frozenset({F.conv1d, F.conv2d})

TIMES = frozenset(
    {torch.mul, torch.multiply, Tensor.mul, Tensor.mul_, Tensor.multiply, Tensor.multiply_, Tensor.__rmul__}
)
OVER = frozenset(
    {torch.div, torch.divide, torch.true_divide, Tensor.div, Tensor.div_, Tensor.divide, Tensor.true_divide}
)
PLUS = frozenset(
    {torch.add, torch.sub, Tensor.add, Tensor.add_, Tensor.sub, Tensor.sub_, Tensor.__radd__, Tensor.__rsub__}
)
EXPAND = frozenset(
    {Tensor.expand, Tensor.expand_as, Tensor.repeat, torch.broadcast_to, torch.tile, torch.repeat_interleave}
    | {Tensor.broadcast_to, Tensor.tile, Tensor.repeat_interleave}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A batched matrix product: ``left @ right``, or what an einsum's equation says."""

    left: Tensor
    right: Tensor
    equation: str | None = None
    alpha: float = 1.0


def product(function: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Product | None:
    """The matrix product of two tensors that this call computes, or None."""
    if function in EINSUM:
        return _einsum(args)
    names = ("input", "batch1", "batch2") if function in BADDBMM else ("input", "other")
    given = [*args, *(kwargs[name] for name in (*names, "mat2", "tensor2") if name in kwargs)]
    pair = given[-2:] if function in RMATMUL | MATMUL else given[1:3]
    if function in RMATMUL:
        pair.reverse()
    match pair:
        case [Tensor() as left, Tensor() as right]:
            return Product(left=left, right=right, alpha=_number(kwargs.get("alpha")) or 1.0)
    return None


def _einsum(args: Sequence[object]) -> Product | None:
    match args:
        case [str() as equation, [Tensor() as left, Tensor() as right]]:
            return Product(left=left, right=right, equation=equation.replace(" ", ""))
        case [str() as equation, Tensor() as left, Tensor() as right]:
            return Product(left=left, right=right, equation=equation.replace(" ", ""))
    return None


def factor(function: object, args: Sequence[object]) -> float:
    """What this call multiplies a tensor with, where that is one known number; else 1."""
    if len(args) < 2 or not (function in TIMES or function in OVER):
        return 1.0
    left, right = _number(args[0]), _number(args[1])
    if function in OVER:
        return 1.0 if right is None or right == 0 else 1 / right
    return next((number for number in (right, left) if number is not None), 1.0)


def _number(value: object) -> float | None:
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 and not value.is_meta else None
    return float(value) if isinstance(value, int | float) else None
