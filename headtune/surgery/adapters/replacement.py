"""A HeadedAttention that stands in for an attention block of PyTorch or of headtune."""

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

from headtune.heads.count import HeadCount
from headtune.nn import HeadedAttention
from headtune.surgery.adapters.drawing import settle_draw

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook")

Block: TypeAlias = nn.MultiheadAttention | HeadedAttention


def replacement(old: Block, wanted: HeadCount) -> HeadedAttention:
    """A module that can stand where *old* stood, with the wanted counts.

    Tensors keep their values where their shape stays (the query rows when only the kv heads change, the output bias
    always); the others are drawn anew, as those were that stood there. Options, hooks, training mode, device, type and
    ``requires_grad`` are kept.
    """
    tensors = named_tensors(old)
    new = _built(old, wanted, tensors)
    drawn_again = dict(_built(old, _present(old), tensors).named_parameters())
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            tensor = tensors[name]
            if tensor.shape == parameter.shape:
                parameter.copy_(tensor)
            else:
                settle_draw(parameter, tensor, drawn_again[name])
            parameter.requires_grad_((tensor if tensor._base is None else tensor._base).requires_grad)
    inherit(new, old)
    return new


def _built(old: Block, wanted: HeadCount, tensors: Mapping[str, Tensor]) -> HeadedAttention:
    kind = tensors["q_proj.weight"]
    return HeadedAttention(
        old.embed_dim,
        wanted.num_heads,
        dropout=old.dropout,
        bias="q_proj.bias" in tensors,
        add_bias_kv=old.bias_k is not None,
        add_zero_attn=old.add_zero_attn,
        kdim=old.kdim,
        vdim=old.vdim,
        batch_first=old.batch_first,
        device=kind.device,
        dtype=kind.dtype,
        head_dim=wanted.head_dim,
        num_kv_heads=wanted.num_kv_heads,
        window=old.window if isinstance(old, HeadedAttention) else None,
    )


def _present(old: Block) -> HeadCount:
    if isinstance(old, HeadedAttention):
        return HeadCount(old.num_heads, old.num_kv_heads, old.head_dim)
    return HeadCount(old.num_heads, old.num_heads, old.embed_dim // old.num_heads)


def inherit(new: nn.Module, old: nn.Module) -> None:
    """Give *new* the hooks and the training mode of *old*, whose place it takes."""
    vars(new).update({name: value for name, value in vars(old).items() if name.startswith(_HOOKS)})
    new.train(old.training)


def named_tensors(old: Block) -> dict[str, Tensor]:
    """The block's tensors under the names that :class:`HeadedAttention` gives them."""
    if isinstance(old, HeadedAttention):
        return dict(old.named_parameters())
    tensors: dict[str, Tensor] = {}
    weights = (
        old.in_proj_weight.chunk(3)
        if old._qkv_same_embed_dim
        else (old.q_proj_weight, old.k_proj_weight, old.v_proj_weight)
    )
    tensors |= {f"{letter}_proj.weight": weight for letter, weight in zip("qkv", weights, strict=True)}
    if old.in_proj_bias is not None:
        tensors |= {f"{letter}_proj.bias": bias for letter, bias in zip("qkv", old.in_proj_bias.chunk(3), strict=True)}
    tensors |= {f"out_proj.{name}": parameter for name, parameter in old.out_proj.named_parameters()}
    if old.bias_k is not None and old.bias_v is not None:
        tensors |= {"bias_k": old.bias_k, "bias_v": old.bias_v}
    return tensors
