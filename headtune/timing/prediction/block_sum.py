"""The latency of a model that is too large to build: its blocks one at a time, added up."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import torch
from torch import nn

import headtune.rules as rules
from headtune.errors import InputError, MeasurementError
from headtune.surgery.inputs import Inputs
from headtune.timing.comparison import Comparison, over, unlike
from headtune.timing.device import resolve
from headtune.timing.forward import check_arguments
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.lane import Lane
from headtune.timing.latency import measure
from headtune.timing.paths import sites_at
from headtune.timing.prediction.blocks import blocks_of, materialised
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedBlock:
    """Blocks of a model that are alike, of which one was timed.

    Attributes:
        paths: of all of them, one for each time that a pass calls it.
        latency: of one.
    """

    paths: tuple[str, ...]
    latency: LatencyProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSum:
    """What the blocks of a model take together.

    What happens between them, such as additions and masks, is not in it; :meth:`match` tells what that comes to.

    Attributes:
        protocol: how the blocks were timed, with the sizes of the whole model's inputs.
        blocks: in the order in which they are called first.
    """

    protocol: LatencyProtocol
    blocks: tuple[TimedBlock, ...]

    @property
    def median_ms(self) -> float:
        """The sum over all blocks of the medians."""
        return sum(len(block.paths) * block.latency.median_ms for block in self.blocks)

    @property
    def interval_ms(self) -> tuple[float, float]:
        """The sum's 95 % interval; the errors of unlike blocks are independent, those of alike ones the same."""
        below, above = (
            hypot(*(len(one.paths) * abs(one.latency.interval_ms[end] - one.latency.median_ms) for one in self.blocks))
            for end in (0, 1)
        )
        return self.median_ms - below, self.median_ms + above

    def match(self, whole: LatencyProfile) -> Comparison:
        """The sum over a whole model that was measured: the same one where it can be built, or one with fewer layers.

        Args:
            whole: of the model whose blocks these are, measured under the same protocol.

        Raises:
            InputError: it was measured otherwise.
        """
        if not isinstance(whole, LatencyProfile):
            raise InputError(f"BlockSum.match: whole: must be a LatencyProfile{rules.came(whole)}")
        problems = unlike((self.protocol, self.blocks[0].latency.device_name), (whole.protocol, whole.device_name))
        if problems:
            raise InputError(*problems)
        return over((self.median_ms, self.interval_ms), (whole.median_ms, whole.interval_ms))


def sum_blocks(
    model: nn.Module,
    inputs: Inputs | InputsFactory,
    protocol: LatencyProtocol,
    paths: Sequence[str],
    *,
    lane: Lane | None = None,
) -> BlockSum:
    """Time a model's blocks one at a time, with inputs of the sizes that they really get, and add them up.

    For a model that is too large to build: make it under ``torch.device("meta")``, where it has sizes and no weights,
    and apply a plan to it there. Blocks are the entries of its lists of layers that hold attention, and what stands
    beside these; of alike ones one is timed, with weights drawn at random.

    Args:
        model: on any device; left as it is.
        inputs: as for :func:`~headtune.timing.latency.measure`.
        protocol: likewise; ``mode: forward``.
        paths: of the attention sites.
        lane: as for :func:`~headtune.timing.latency.measure`.

    Raises:
        InputError: another mode, a path that the model does not have or none, or an argument of the wrong kind.
        MeasurementError: the model does not run on the meta device, or a block not by itself.
    """
    check_arguments("sum_blocks", model, protocol)
    sites_at(model, paths)
    if protocol.mode != "forward":
        raise InputError(f"sum_blocks: mode is {protocol.mode}; a block by itself has a forward pass only")
    given, sized = ready_inputs(inputs, resolve(protocol, torch.get_num_threads()))
    timed = []
    for calls in blocks_of(model, given, paths):
        path, call = calls[0]
        block, arguments = materialised(model, path, call, protocol)
        try:
            latency = measure(block, arguments, protocol, lane=lane)
        except MeasurementError as error:
            raise MeasurementError(*(f"block {path}: {problem}" for problem in error.problems)) from error
        timed.append(TimedBlock(paths=tuple(path for path, _ in calls), latency=latency))
    return BlockSum(protocol=sized, blocks=tuple(timed))
