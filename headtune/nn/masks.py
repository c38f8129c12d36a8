"""Attention masks as ``nn.MultiheadAttention`` takes them, merged into one additive bias.

B batch, H heads, T queries, S keys.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask as a bias on the scores: a boolean mask blocks where it is True, a float one is added as it is.

    Raises:
        TypeError: the mask is neither boolean nor floating point.
    """
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    if not mask.is_floating_point():
        raise TypeError(f"an attention mask is boolean or floating point, not {mask.dtype}")
    return mask.to(dtype)


def per_head(attn_mask: Tensor, batch: int, num_heads: int) -> Tensor:
    """``(T, S)`` or ``(B*H, T, S)`` as something that broadcasts to ``(B, H, T, S)``.

    Raises:
        RuntimeError: a 3-D mask was made for another batch size or another number of heads.
    """
    if attn_mask.dim() == 2:
        return attn_mask
    if attn_mask.shape[0] != batch * num_heads:
        raise RuntimeError(
            f"a 3-D attn_mask has one row per batch item and head: got {attn_mask.shape[0]} rows "
            f"for {batch} items and {num_heads} heads; make it from the module's num_heads"
        )
    return attn_mask.view(batch, num_heads, *attn_mask.shape[1:])


def merge(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    *,
    batch: int,
    num_heads: int,
    extra: int,
    dtype: torch.dtype,
) -> Tensor | None:
    """One additive bias, broadcastable to ``(B, H, T, S + extra)``, or None where nothing is masked.

    Args:
        attn_mask: ``(T, S)`` or ``(B*H, T, S)``.
        key_padding_mask: ``(B, S)``.
        batch: B.
        num_heads: H.
        extra: keys that the module appends itself; they are never masked.
        dtype: of the bias.
    """
    bias = None
    if attn_mask is not None:
        bias = F.pad(per_head(additive(attn_mask, dtype), batch, num_heads), (0, extra))
    if key_padding_mask is not None:
        padding = F.pad(additive(key_padding_mask, dtype), (0, extra))[:, None, None, :]
        bias = padding if bias is None else bias + padding
    return bias
