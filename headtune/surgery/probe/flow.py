"""Where a tensor's features come from: the projection that made them, and the number they were scaled by since."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The way from the nearest projection to a tensor.

    Attributes:
        weights: names of the projections' weights; ``""`` for one that is no parameter.
        positions: vectors that the projection put out; 0 when unknown.
        entered: what the projection read.
        scale: product of the numbers that multiplied the projection's output.
        rotated: features of a table that multiplied them, as rotary positions do; 0 for none.
    """

    weights: frozenset[str] = frozenset()
    positions: int = 0
    entered: Tensor | None = None
    scale: float = 1.0
    rotated: int = 0


def merged(flows: Sequence[Flow]) -> Flow:
    """The flow of a tensor computed from several: all their weights, and the first one's way."""
    first = flows[0]
    if len(flows) == 1:
        return first
    weights = frozenset().union(*(flow.weights for flow in flows))
    return replace(first, weights=weights, rotated=max(flow.rotated for flow in flows))


def entered_apart(q: Flow, k: Flow) -> bool | None:
    """Whether queries and keys were projected from different tensors; None when that is unknown."""
    if q.entered is None or k.entered is None:
        return None
    return not same(q.entered, k.entered)


def same(left: Tensor, right: Tensor) -> bool:
    """Whether both are one tensor, or hold the same values."""
    if left is right:
        return True
    if left.shape != right.shape or left.is_meta or right.is_meta:
        return False
    return torch.equal(left, right)
