"""Attention maps, recomputed from what a fused function was given.

B batch, H heads, T queries, S keys, D features per head; L all leading dimensions, those of batch and heads.
"""

import inspect

import torch
from torch import Tensor
from torch.nn import functional as F

from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.fused import given_to_sdpa, sdpa_arguments


def sdpa_maps(call: FunctionCall, result: Tensor) -> Tensor | None:
    """The maps ``(L…, T, S)`` of a ``scaled_dot_product_attention`` call, in float32 at least, without dropout."""
    operands = given_to_sdpa(call.args, call.kwargs)
    if operands is None:
        return None
    query, key, _ = operands
    given = sdpa_arguments(call.args, call.kwargs)
    wide = torch.promote_types(query.dtype, torch.float32)
    if key.dim() > 2 and key.shape[-3] not in (1, query.shape[-3]):
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scale, mask = given.get("scale"), given.get("attn_mask")
    with torch.autocast(query.device.type, enabled=False):
        scores = query.to(wide) @ key.to(wide).transpose(-2, -1)
        scores = scores * (scale if isinstance(scale, float | int) else query.shape[-1] ** -0.5)
        if given.get("is_causal"):
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
        if isinstance(mask, Tensor):
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        blocked = scores.isneginf().all(-1, keepdim=True)  # PyTorch gives such queries zeros
        maps = scores.softmax(-1).masked_fill(blocked, 0.0)
    return maps.expand(*result.shape[:-2], *maps.shape[-2:])


def multi_head(call: FunctionCall) -> tuple[Tensor, Tensor]:
    """Maps ``(B, H, T, S)`` and outputs ``(B, T, H, D)`` of an ``F.multi_head_attention_forward`` call.

    It is called once more for its weights, and once with the identity as its output projection.
    """
    given = inspect.signature(F.multi_head_attention_forward).bind(*call.args, **call.kwargs).arguments
    weight, heads = given["out_proj_weight"], given["num_heads"]
    identity = torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device)
    _, maps = F.multi_head_attention_forward(**{**given, "need_weights": True, "average_attn_weights": False})
    outputs, _ = F.multi_head_attention_forward(**{**given, "out_proj_weight": identity, "out_proj_bias": None})
    assert maps is not None
    if maps.dim() == 3:
        maps, outputs = maps[None], outputs[:, None]
    return maps, outputs.transpose(0, 1).unflatten(-1, (heads, -1))
