"""One decoded token: the pass of a single position that attends to a cache of keys and values."""

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headtune.errors import MeasurementError
from headtune.timing.forward import Forward, autocasting
from headtune.timing.inputs import held_tensors
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.step import Step

CACHES, ASKS = ("cache", "past_key_values"), "use_cache"
"""What transformers calls the cache, now and before; the argument that asks for one."""

_POSITIONS = ("position_ids", "cache_position", "labels", "decoder_position_ids", "decoder_attention_mask")
"""Arguments that speak of the positions of the whole sequence; a model derives them from its cache."""


def decoded_token(forward: Forward, protocol: LatencyProtocol) -> Step:
    """The pass of the last token of the inputs, after a pass of all of them has filled the cache.

    Models that follow the convention of transformers have one: ``forward`` takes ``cache`` (or ``past_key_values``) and
    ``use_cache``, and what it returns has the cache under the same name. An encoder-decoder's encoder is not run again.
    Each timed call begins with the same cache; of calls timed in a row each finds one token more.

    Args:
        forward: the model and its arguments, on their device.
        protocol: says under which autocast.

    Raises:
        MeasurementError: the model has no such cache.
    """
    name, given = _cache_name(forward), _named(forward)
    with autocasting(protocol):
        filled = forward.model(**given, **{ASKS: True})
    cache = _part(filled, name)
    if cache is None:
        raise MeasurementError(f"{_NO_CACHE.format(forward.name)} what it returned has none")
    token = _last_token(forward, given, filled)
    kept = {"cache": copy.deepcopy(cache)}

    def renew() -> None:
        kept["cache"] = copy.deepcopy(cache)

    def call() -> object:
        with autocasting(protocol):
            return forward.model(**token, **{name: kept["cache"], ASKS: True})

    return Step(call=call, renew=renew, held=lambda: held_tensors(cache))


_NO_CACHE = (
    "{} has no KV cache that headtune knows, so it decodes no single token: its forward must take cache or "
    "past_key_values, and use_cache, and return what it filled under the same name; measure mode: forward otherwise:"
)


def _cache_name(forward: Forward) -> str:
    """What the model's forward calls its cache."""
    names = inspect.signature(forward.model.forward).parameters
    name = next((name for name in CACHES if name in names), None)
    if name is None or ASKS not in names:
        lacks = [*([] if name else [CACHES[-1]]), *([] if ASKS in names else [ASKS])]
        raise MeasurementError(f"{_NO_CACHE.format(forward.name)} its forward takes no {' and no '.join(lacks)}")
    return name


def _named(forward: Forward) -> dict[str, Any]:
    """The arguments of forward by name, but for those of the cache."""
    signature = inspect.signature(forward.model.forward)
    bound = dict(signature.bind(*forward.given.args, **forward.given.kwargs).arguments)
    for name, one in signature.parameters.items():
        if one.kind is one.VAR_KEYWORD:
            bound |= bound.pop(name, {})
    return {name: value for name, value in bound.items() if value is not None and name not in (*CACHES, ASKS)}


def _last_token(forward: Forward, given: Mapping[str, Any], filled: object) -> dict[str, Any]:
    """The arguments of the pass of one token."""
    rest = {name: value for name, value in given.items() if name not in _POSITIONS}
    encoded = _part(filled, "encoder_last_hidden_state")
    if encoded is not None:
        sequence = _first(rest, "decoder_input_ids", "decoder_inputs_embeds")
        rest = {name: value for name, value in rest.items() if name not in ("input_ids", "inputs_embeds")}
        rest["encoder_outputs"] = (encoded,)
    else:
        tensors = [name for name, value in rest.items() if isinstance(value, Tensor)]
        sequence = _first(rest, "input_ids", "inputs_embeds", *tensors)
        if isinstance(mask := rest.get("attention_mask"), Tensor) and mask.dim() == 2:
            rest["attention_mask"] = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    if sequence is None:
        raise MeasurementError(f"{_NO_CACHE.format(forward.name)} no argument of it is the sequence that it decodes")
    return {**rest, sequence: rest[sequence][:, -1:]}


def _first(given: Mapping[str, Any], *names: str) -> str | None:
    return next((name for name in names if name in given), None)


def _part(value: object, name: str) -> Any:  # noqa: ANN401
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
