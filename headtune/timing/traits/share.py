"""How much of a pass is attention: what would be saved if it took no time at all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import torch
from torch import nn

from headtune.errors import InputError
from headtune.surgery.inputs import Inputs, own_copy
from headtune.timing.conditions import conditions
from headtune.timing.forward import Forward, check_arguments, prepared
from headtune.timing.inputs import InputsFactory, mapped, ready_inputs
from headtune.timing.lane import Lane
from headtune.timing.latency import measure
from headtune.timing.paths import modules_at, sites_at
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.traits.plain import one_pass
from headtune.timing.traits.rerouting import Function, Rerouted


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShare:
    """What of a forward pass its attention takes, projections included.

    Attributes:
        value: 1 - (time of the pass without attention / time of the pass).
        interval: its 95 % interval; it may reach below 0 where attention takes less than the noise.
        ordinary: whether both passes took PyTorch's ordinary path: its fused encoder layers cannot be taken apart.
        settled: whether the measurement reached the protocol's precision.
    """

    value: float
    interval: tuple[float, float]
    ordinary: bool
    settled: bool


def attention_share(
    model: nn.Module,
    inputs: Inputs | InputsFactory,
    protocol: LatencyProtocol,
    paths: Sequence[str],
    *,
    outputs: Sequence[str] = (),
    lane: Lane | None = None,
) -> AttentionShare:
    """Time the model without its attention, in pairs with the whole model.

    Without attention means that the modules at *paths* and *outputs* return at once what they returned in an earlier
    pass of the same inputs; everything else runs as ever. No profiler is involved, whose times of the parts exceed that
    of the pass, and no hook that waits for the device. The model is as it was afterwards.

    Args:
        model: what is timed; a copy of it where it must be moved or cast.
        inputs: as for :func:`~headtune.timing.latency.measure`.
        protocol: how; an eager forward pass at the longest sequence length is timed, whatever its mode.
        paths: the attention sites, as in ``model.named_modules()``.
        outputs: modules outside of them that project the outputs of their heads, as
            :func:`~headtune.timing.traits.extent.attention_extent` finds them; those that do not run are left alone.
        lane: keeps the trials of this node still meanwhile.

    Raises:
        InputError: an argument of the wrong kind, a path that the model does not have, or one that does not run.
        MeasurementError: a device that is not there, or a model that raises.
    """
    check_arguments("attention_share", model, protocol)
    sites_at(model, paths)
    modules_at(model, outputs)
    protocol = one_pass(protocol, eager=True)
    with conditions(protocol):
        arguments, _ = ready_inputs(inputs, protocol)
        with prepared(model, arguments, protocol) as forward:
            returned, ordinary = _returned(
                forward, modules_at(forward.model, paths), dict(modules_at(forward.model, outputs)), protocol
            )
            whole = Rerouted(forward.model, {}, ordinary=ordinary)
            without = Rerouted(forward.model, {one: _stub(made) for one, made in returned.items()}, ordinary=ordinary)
            timed = measure(without, lambda batch_size, seq_len: arguments, protocol, reference=whole, lane=lane)
    low, high = (max(1 - end, 0.0) for end in reversed(timed.ratio_interval))
    return AttentionShare(
        value=max(1 - timed.ratio, 0.0), interval=(low, high), ordinary=ordinary, settled=timed.settled
    )


def _returned(
    forward: Forward,
    sites: Sequence[tuple[str, nn.Module]],
    outputs: Mapping[str, nn.Module],
    protocol: LatencyProtocol,
) -> tuple[dict[nn.Module, list[Any]], bool]:
    """What each site returned in one pass, call by call, and whether that took PyTorch's ordinary path."""
    unused: list[str] = []
    for ordinary in (False, True):
        made: dict[nn.Module, list[Any]] = {
            module: [] for module in (*(module for _, module in sites), *outputs.values())
        }
        noting = {module: _noting(module.forward, results) for module, results in made.items()}
        watched = replace(forward, model=Rerouted(forward.model, noting, ordinary=ordinary))
        with torch.no_grad(), forward.blamed():  # what is made in inference mode could not be used outside of it
            watched.under(protocol)()
        unused = [path for path, module in sites if not made[module]]
        if not unused:
            return {module: results for module, results in made.items() if results}, ordinary
    raise InputError(f"attention_share: {', '.join(unused)} did not run in the pass; name the sites that do")


def _noting(function: Function, outputs: list[Any]) -> Function:
    def noting(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = function(*args, **kwargs)
        outputs.append(own_copy(result))
        return result

    return noting


def _stub(outputs: Sequence[Any]) -> Callable[..., Any]:
    returning = cycle(outputs)  # a module that runs several times in a pass returns each time what it returned then

    def stub(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return mapped(next(returning), lambda tensor: tensor)  # containers of its own: a model may empty them

    return stub
