"""Whether a pass spends its time on launching operations, on reading weights, or on the work itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headtune.surgery.inputs import Inputs
from headtune.timing.conditions import conditions
from headtune.timing.forward import check_arguments, prepared
from headtune.timing.inputs import InputsFactory, leaves, ready_inputs
from headtune.timing.lane import Lane
from headtune.timing.latency import measure
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.traits.plain import one_pass

Bound = Literal["launch", "weights", "work", "unclear"]

MOSTLY = 0.5
"""The share of a pass from which on it is what the pass is bound by."""

_LARGEST_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTest:
    """How the time of a pass follows its batch.

    Attributes:
        bound: what the pass is bound by: ``launch``, ``weights``, ``work``; ``unclear`` where noise hides it.
        fixed: the share of the pass's time that does not change with the batch.
        fixed_interval: its 95 % interval.
        weights: the share that reading the weights once takes; ``None`` where it was not needed to tell.
        batch_sizes: the protocol's, and the one that it was compared with.
    """

    bound: Bound
    fixed: float
    fixed_interval: tuple[float, float]
    weights: float | None
    batch_sizes: tuple[int, int]


def launch_test(
    model: nn.Module, inputs: InputsFactory, protocol: LatencyProtocol, *, lane: Lane | None = None
) -> LaunchTest | None:
    """Time the model at half its batch, at twice where the batch is 1, in pairs with the model at its batch.

    If a pass takes ``fixed + work × batch``, the ratio of the two gives the share of *fixed* in it: an all but equal
    time for half of the work is not spent on the work. A pass is bound by its work where less than half of its time is
    fixed, by the whole interval; else by reading its weights where a plain read of as many bytes, timed in pairs too,
    takes more than half of the fixed time; else by launching its operations, the Python code around them included.
    ``unclear`` where the interval holds one half.

    Args:
        model: as for :func:`~headtune.timing.latency.measure`.
        inputs: a callable of ``(batch_size, seq_len)``.
        protocol: how; a forward pass at the longest sequence length is timed, whatever its mode.
        lane: keeps the trials of this node still meanwhile.

    Returns:
        What was found; ``None`` where *inputs* returns the same sizes for both batches, so that nothing can be told.

    Raises:
        InputError: an argument of the wrong kind, or inputs that are no arguments.
        MeasurementError: a device that is not there, or a model that raises.
    """
    check_arguments("launch_test", model, protocol)
    protocol = one_pass(protocol)
    batch_size = protocol.batch_size
    other = replace(protocol, batch_size=batch_size // 2 or 2)
    with conditions(protocol):
        usual, unusual = (ready_inputs(inputs, one)[0] for one in (protocol, other))
        work = _resized(usual, unusual)
        if work is None:
            return None
        with prepared(model, usual, protocol) as forward, prepared(forward.model, unusual, other) as resized:
            against = _against(forward.model, usual, protocol, lane)
            timed = against(
                _Calling(forward.model, partial(forward.model, *resized.given.args, **resized.given.kwargs))
            )
            ends = [_fixed(ratio, work) for ratio in timed.ratio_interval]
            fixed, interval = _fixed(timed.ratio, work), (min(ends), max(ends))
            weights = None
            if interval[0] >= MOSTLY:
                weights = against(_Calling(None, _reading(forward.model, torch.device(protocol.device)))).ratio
    return LaunchTest(
        bound=bound_by(interval, weights),
        fixed=fixed,
        fixed_interval=interval,
        weights=weights,
        batch_sizes=(batch_size, other.batch_size),
    )


def bound_by(fixed: tuple[float, float], weights: float | None) -> Bound:
    """What a pass is bound by, from the interval of its fixed share and the share of reading its weights."""
    low, high = fixed
    if high < MOSTLY:
        return "work"
    if low < MOSTLY:
        return "unclear"
    return "weights" if weights is not None and weights > (low + high) / 2 * MOSTLY else "launch"


class _Calling(nn.Module):
    """Calls something else, whatever it is given."""

    def __init__(self, model: nn.Module | None, call: Callable[[], Any]) -> None:
        super().__init__()
        self.model = model
        self._call = call

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return self._call()


def _against(
    model: nn.Module, arguments: Inputs, protocol: LatencyProtocol, lane: Lane | None
) -> Callable[[nn.Module], LatencyProfile]:
    """Times a module in pairs with the model at its own batch."""
    return lambda module: measure(module, lambda batch_size, seq_len: arguments, protocol, reference=model, lane=lane)


def _fixed(ratio: float, work: float) -> float:
    """The share of ``fixed`` in a pass, from the ratio that so much of its work takes of its time; within 0 … 1."""
    return min(max((ratio - work) / (1 - work), 0.0), 1.0)


def _resized(usual: Inputs, other: Inputs) -> float | None:
    """How much larger the first tensor that changes has become, whatever batch *inputs* was asked for."""
    for one, changed in zip(leaves(usual), leaves(other), strict=False):
        if one.numel() != changed.numel():
            return changed.numel() / one.numel()
    return None


def _reading(model: nn.Module, device: torch.device) -> Callable[[], Tensor]:
    """Reads as many bytes as the model's weights have, which is the least that a pass can do with them.

    Embeddings are looked up and not read; bytes beyond :data:`_LARGEST_BYTES` are read in several rounds.
    """
    count = sum(weight.numel() * weight.element_size() for weight in _read_whole(model))
    rounds = -(-count // _LARGEST_BYTES) or 1
    block = torch.ones(max(count // rounds // 4, 1), dtype=torch.float32, device=device)

    def read() -> Tensor:
        for _ in range(rounds - 1):
            block.sum()
        return block.sum()

    return read


def _read_whole(model: nn.Module) -> Iterator[nn.Parameter]:
    used = {
        id(parameter)
        for module in model.modules()
        if not isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
    }
    yield from (parameter for parameter in model.parameters() if id(parameter) in used)
