"""Telling a causal mask from any other.

T queries, S keys.
"""

import torch
from torch import Tensor

# Hand-written masks use -inf, -1e9, -1e4 or the type's least value; no score comes near.
_BLOCKING = -1e4


def blocked_by_bias(bias: Tensor) -> Tensor:
    """Where an additive mask forbids attention."""
    return bias <= _BLOCKING


def hides_the_future(blocked: Tensor | None) -> bool:
    """Whether every later key is blocked, and some earlier one (but the first) is not.

    With more keys than queries the extra ones may stand before the sequence (a cache, a null key) or after it (a bias
    key); both are tried. False where the values cannot be read (meta device) or one query leaves nothing to tell.

    Args:
        blocked: boolean ``(…, T, S)``, True where attention is forbidden.
    """
    if blocked is None or blocked.is_meta or blocked.dim() < 2:
        return False
    length, keys = blocked.shape[-2:]
    if length < 2 or keys < length:
        return False
    return any(_is_triangle(blocked[..., start : start + length]) for start in {0, keys - length})


def _is_triangle(square: Tensor) -> bool:
    length = square.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool, device=square.device).triu(1)
    earlier = ~later
    earlier[:, 0] = False
    return bool(square[..., later].all()) and not bool(square[..., earlier].all())
