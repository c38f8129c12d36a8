"""Attention to the neighbourhood alone, in time and memory that grow with the length and not with its square.

B batch, T positions, H query heads, K key/value heads, D features per head; W the window, N blocks of W queries, C keys
that a block sees: those of its own block, of the one before, and of the one after unless the attention is causal.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headtune.nn.masks import additive, per_head


def local_attention(
    q_BHTD: Tensor,
    k_BKTD: Tensor,
    v_BKTD: Tensor,
    window: int,
    *,
    causal: bool,
    attn_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax attention in which a query sees the keys less than *window* positions away; exact, not approximated.

    Equal to dense attention whose mask blocks all other keys, but only the scores of neighbouring blocks are computed:
    T·C of them for each head instead of T², with C three windows, or two where the attention is causal.

    References:
        Beltagy, Peters and Cohan, Longformer: The Long-Document Transformer, 2020 (§3.1, sliding window).

    Args:
        q_BHTD: queries.
        k_BKTD: keys, of as many positions.
        v_BKTD: values.
        window: W; a causal query sees W keys, its own among them, any other one 2W - 1.
        causal: whether a query sees no later key either.
        attn_mask: ``(T, T)`` or ``(B*H, T, T)``; boolean (True is blocked) or added to the scores; read along the band.
        key_padding_mask: ``(B, T)``; boolean (True is padding) or added to the scores.
        dropout: on the attention weights.

    Returns:
        ``(B, H, T, D)``.
    """
    batch, heads, length, _ = q_BHTD.shape
    blocks = -(-length // window)
    bias = _bias(batch, heads, length, window, causal, attn_mask, key_padding_mask, q_BHTD)
    q = F.pad(q_BHTD.transpose(1, 2), (0, 0, 0, 0, 0, blocks * window - length)).unflatten(1, (blocks, window))
    k, v = (_neighbours(x.transpose(1, 2), window, causal) for x in (k_BKTD, v_BKTD))
    grouped = k_BKTD.shape[1] != heads
    q, k, v = (x.flatten(0, 1).transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, bias, dropout, enable_gqa=grouped)
    return out.transpose(1, 2).reshape(batch, blocks * window, heads, -1)[:, :length].transpose(1, 2)


def _neighbours(x_BT: Tensor, window: int, causal: bool) -> Tensor:
    """``(B, T, …)`` as ``(B, N, C, …)``: what each block sees, zeros beyond the ends."""
    length = x_BT.shape[1]
    blocks = -(-length // window)
    sides = (window, blocks * window - length + (0 if causal else window))
    padded = F.pad(x_BT, (*([0, 0] * (x_BT.dim() - 2)), *sides)).unflatten(1, (-1, window))
    return torch.cat([padded[:, first : first + blocks] for first in range(2 if causal else 3)], dim=2)


def _bias(
    batch: int,
    heads: int,
    length: int,
    window: int,
    causal: bool,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    like: Tensor,
) -> Tensor:
    """``(B*N, 1 or H, W, C)``, added to the scores."""
    blocks, seen = -(-length // window), (2 if causal else 3) * window
    first_N = torch.arange(blocks, device=like.device)[:, None] * window
    query_NW = first_N + torch.arange(window, device=like.device)
    key_NC = first_N - window + torch.arange(seen, device=like.device)
    ahead_NWC = key_NC[:, None, :] - query_NW[:, :, None]
    hidden_NWC = (ahead_NWC.abs() >= window) | (key_NC < 0)[:, None, :] | (key_NC >= length)[:, None, :]
    if causal:
        hidden_NWC |= ahead_NWC > 0
    bias = additive(hidden_NWC, like.dtype)[None, :, None]
    if key_padding_mask is not None:
        bias = bias + _neighbours(additive(key_padding_mask, like.dtype), window, causal)[:, :, None, None]
    if attn_mask is not None:
        mask = per_head(attn_mask, batch, heads)
        band = mask[..., query_NW.clamp(max=length - 1)[:, :, None], key_NC.clamp(0, length - 1)[:, None, :]]
        bias = bias + additive(band[None, :, None] if mask.dim() == 2 else band.transpose(1, 2), like.dtype)
    return bias.expand(batch, *bias.shape[1:]).flatten(0, 1)
