"""Reading attention off the calls that compute it whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from headtune.surgery.probe.causal import blocked_by_bias, hides_the_future
from headtune.surgery.probe.flow import Flow, entered_apart, same
from headtune.surgery.probe.heads import count_distinct, count_heads
from headtune.surgery.probe.marks import Scores

_SDPA_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
_MULTI_HEAD_NAMES = ("query", "key", "value", "embed_dim_to_check", "num_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """What one call of a fused attention function computed."""

    scores: Scores
    causal: bool
    v: Flow


def sdpa_arguments(args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """What a ``scaled_dot_product_attention`` call was given, by name."""
    return {**dict(zip(_SDPA_NAMES, args, strict=False)), **kwargs}


def given_to_sdpa(args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Tensor, Tensor, Tensor] | None:
    """Query, key and value of a ``scaled_dot_product_attention`` call."""
    given = sdpa_arguments(args, kwargs)
    match tuple(given.get(name) for name in ("query", "key", "value")):
        case (Tensor() as query, Tensor() as key, Tensor() as value):
            return query, key, value
    return None


def read_sdpa(args: Sequence[object], kwargs: Mapping[str, object], flow: Callable[[Tensor], Flow]) -> Fused | None:
    """The attention of a ``scaled_dot_product_attention`` call; a boolean mask is True where attention is allowed."""
    operands = given_to_sdpa(args, kwargs)
    if operands is None:
        return None
    query, key, value = operands
    given = sdpa_arguments(args, kwargs)
    scale = given.get("scale")
    q, k, head_dim = flow(query), flow(key), query.shape[-1]
    heads = count_heads(query, head_dim, q.positions)
    apart = entered_apart(q, k)
    scores = Scores(
        q=q,
        k=k,
        num_heads=heads,
        num_kv_heads=count_distinct(key, heads),
        head_dim=head_dim,
        two_inputs=query.shape[-2] != key.shape[-2] if apart is None else apart,
        scale=q.scale * k.scale * (scale if isinstance(scale, float | int) else head_dim**-0.5),
    )
    causal = bool(given.get("is_causal")) or hides_the_future(_blocked(given.get("attn_mask"), allowed=True))
    return Fused(scores=scores, causal=causal, v=flow(value))


def read_multi_head(args: Sequence[object], kwargs: Mapping[str, object]) -> Fused | None:
    """The attention of a call of ``F.multi_head_attention_forward``; its boolean mask is True where it is forbidden."""
    given: dict[str, object] = {**dict(zip(_MULTI_HEAD_NAMES, args, strict=False)), **kwargs}
    query, key, heads = (given.get(name) for name in ("query", "key", "num_heads"))
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(heads, int)):
        return None
    head_dim = query.shape[-1] // heads
    scores = Scores(
        q=Flow(),
        k=Flow(),
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=head_dim,
        two_inputs=not same(query, key),
        scale=head_dim**-0.5,
    )
    causal = bool(given.get("is_causal")) or hides_the_future(_blocked(given.get("attn_mask"), allowed=False))
    return Fused(scores=scores, causal=causal, v=Flow())


def _blocked(mask: object, *, allowed: bool) -> Tensor | None:
    """Where a mask forbids attention; *allowed* says what True means in a boolean one."""
    if not isinstance(mask, Tensor):
        return None
    if mask.is_floating_point():
        return blocked_by_bias(mask)
    return ~mask.bool() if allowed else mask.bool()
