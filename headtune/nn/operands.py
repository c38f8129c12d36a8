"""What comes into a term of a loss: its shapes, its precision, and the positions that count.

B batch, T positions, D features of a vector; other letters are those of the caller.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

import torch
from torch import Tensor

_NOTHING = 1e-24
"""Squares up to here count as zero: the cube of a larger one's inverse root, its gradient, is finite in float32."""


def misshapen(where: str, **tensors: Tensor) -> list[str]:
    """What is wrong with tensors that are named by their shapes, such as ``q_HDE``: every letter is one size."""
    problems = []
    seen: dict[str, tuple[str, int]] = {}
    for name, tensor in tensors.items():
        letters, shape = name.rpartition("_")[2], tuple(tensor.shape)
        if len(letters) != len(shape):
            problems.append(f"{where}: {name} must have {len(letters)} dimensions, {', '.join(letters)} (got {shape})")
            continue
        for letter, size in zip(letters, shape, strict=True):
            other, expected = seen.setdefault(letter, (name, size))
            if size != expected:
                problems.append(
                    f"{where}: {letter} must be the same in {other} and {name} "
                    f"(got {tuple(tensors[other].shape)} and {shape})"
                )
    return problems


def uncountable(where: str, counted: Tensor | None, shape: tuple[int, ...]) -> list[str]:
    """What is wrong with a mask of the positions that count, of which there are *shape*."""
    if counted is None or (counted.dtype == torch.bool and tuple(counted.shape) == shape):
        return []
    return [
        f"{where}: counted must be boolean and of shape {shape}, True where a position counts "
        f"(got {counted.dtype} of shape {tuple(counted.shape)})"
    ]


@contextmanager
def widened(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors in one type, float32 at least, where autocast does not narrow what is computed from them."""
    wide = reduce(torch.promote_types, (tensor.dtype for tensor in tensors), torch.float32)
    with torch.autocast(tensors[0].device.type, enabled=False):
        yield tuple(tensor.to(wide) for tensor in tensors)


def inverse_root(squares: Tensor) -> Tensor:
    """1 / sqrt of each; 0, and no gradient, where there is nothing to divide by."""
    something = squares > _NOTHING
    return torch.where(something, squares, 1.0).rsqrt() * something


def units(vectors_D: Tensor) -> Tensor:
    """The vectors ``(…, D)`` at length 1; a zero vector stays zero, and has no gradient."""
    return vectors_D * inverse_root(vectors_D.square().sum(-1, keepdim=True))


def mean_over(values: Tensor, counted: Tensor | None) -> Tensor:
    """The mean of the values that count, all of them when None; 0 if none does.

    Args:
        values: of any shape.
        counted: boolean, of a shape that broadcasts to theirs.
    """
    if counted is None:
        return values.sum() / max(1, values.numel())
    counted = counted.expand_as(values)
    return torch.where(counted, values, 0.0).sum() / counted.sum().clamp(min=1)
