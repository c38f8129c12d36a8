"""Counting heads in the tensors that attention multiplies.

B batch, H heads, T queries, S keys, D features per head.
"""

from math import prod

import torch
from torch import Tensor

from headtune.surgery.probe.operations import Product


def count_heads(q: Tensor, head_dim: int, positions: int) -> int:
    """Heads of queries that end in ``(T, D)``: ``(B, H, T, D)``, ``(H, B, T, D)``, ``(B*H, T, D)``, grouped, ….

    Args:
        q: the queries as they are multiplied.
        head_dim: D.
        positions: vectors that the query projection put out, ``B * T``; 0 when unknown.
    """
    leading = q.shape[:-2]
    by_size = _by_size(q, head_dim, positions)
    fits = by_size > 0 and prod(leading) % by_size == 0
    if len(leading) == 2:
        return leading[0] if fits and by_size == leading[0] else leading[1]
    if len(leading) > 2:
        return by_size if fits else prod(leading[1:])
    return by_size if fits and leading else 1


def count_einsum_heads(product: Product, equation: str, positions: int) -> tuple[int, int] | None:
    """H and D of queries that an einsum multiplies with keys; None where its equation shows neither."""
    operands, _, output = equation.partition("->")
    letters_q, _, letters_k = operands.partition(",")
    sizes = dict(zip(letters_q, product.left.shape, strict=False))
    summed = [letter for letter in letters_q if letter in letters_k and letter not in output]
    batched = [letter for letter in output if letter in letters_q and letter in letters_k]
    if "." in equation or not summed or not batched:
        return None
    head_dim = prod(sizes[letter] for letter in summed)
    return _by_size(product.left, head_dim, positions) or sizes[batched[-1]], head_dim


def count_distinct(k: Tensor, num_heads: int) -> int:
    """How many of the heads in ``(…, H, S, D)`` keys differ: fewer than H where grouped keys were repeated."""
    if k.dim() < 4 or k.is_meta or k.shape[-3] < 2:
        return k.shape[-3] if k.dim() == 4 else num_heads
    flat = k.detach().to("cpu", torch.float64).movedim(-3, 0).flatten(1)
    fingerprint = flat @ torch.linspace(1, 2, flat.shape[1], dtype=flat.dtype).sin()
    ordered = fingerprint.sort().values
    tolerance = 1e-9 * float(ordered.abs().max())
    return 1 + int((ordered.diff() > tolerance).sum())


def splits_evenly(tensor: Tensor, head_dim: int, positions: int) -> bool:
    """Whether every vector of its projection is so many whole heads of *head_dim* features; True when unknown.

    Where neither queries nor keys are, scores are sums over something else: over the sequence in attention between
    channels (XCiT).
    """
    return not positions or _by_size(tensor, head_dim, positions) > 0


def _by_size(q: Tensor, head_dim: int, positions: int) -> int:
    """``B*T*H*D / (B*T * D)``, or 0 where that is no whole number."""
    per_head = positions * head_dim
    return q.numel() // per_head if per_head and q.numel() % per_head == 0 else 0
