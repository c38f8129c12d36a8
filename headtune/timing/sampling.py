"""Taking samples: warming up until settled, then pairs until they are precise enough or the time is over."""

import gc
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, inf
from statistics import median

from headtune.timing.audit import drifting, hogged, unsettled, unsynchronised
from headtune.timing.clock import Clock
from headtune.timing.contention import Contention, Usage
from headtune.timing.device import synchronize
from headtune.timing.interval import FEWEST, median_interval
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.workload import Workload

PATIENCE = 5
"""So many times the wanted seconds are spent where the wanted samples are not there yet."""

STEADY_PASSES = 5
STEADY = 0.02
SAMPLE_MS = 0.1
"""A sample lasts at least so long, so that the clock's own cost does not show: faster passes are timed in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What was timed.

    Attributes:
        model_ms: one value per sample.
        reference_ms: the same, taken in turn with them; empty without a reference.
        calls: passes that one value of ``model_ms`` averages.
        settled: whether the warm-up settled and the wanted precision was reached without a drift.
        doubts: what speaks against the values, a sentence each.
    """

    model_ms: Sequence[float]
    reference_ms: Sequence[float]
    calls: int
    settled: bool
    doubts: tuple[str, ...] = ()

    @property
    def ratios(self) -> list[float]:
        """Model time over reference time, pair by pair."""
        return [ours / theirs for ours, theirs in zip(self.model_ms, self.reference_ms, strict=True)]


def take_samples(model: Workload, reference: Workload | None, clock: Clock, protocol: LatencyProtocol) -> Samples:
    """Time the model, in pairs with the reference, under the protocol's rules of length.

    The order within each pair is drawn anew: if both were equal, either would be the slower one with even chance,
    whatever the machine does meanwhile, so that the ratio's interval owes nothing to a quiet machine.
    """
    workloads = [model] if reference is None else [model, reference]
    began = time.perf_counter()
    warm_up_s = protocol.max_seconds / 4
    with _no_garbage_collection():
        warm = [_warm_up(workload, clock, warm_up_s) for workload in workloads]
        calls = [max(1, ceil(SAMPLE_MS / fastest_ms)) for fastest_ms, _ in warm]
        before = Usage.now()
        times = _alternate(workloads, calls, clock, protocol, began)
        left_ms = _left_ms(protocol.device)
        used = Contention.between(before, Usage.now())
    compared = _compared(times)
    clocked_s = sum(sum(column) * n for column, n in zip(times, calls, strict=True)) / 1e3
    drift = drifting(compared)
    short = unsettled(
        warm=all(settled for _, settled in warm),
        warm_up_s=warm_up_s,
        half_width=_half_width(times),
        precision=protocol.precision,
    )
    unseen = unsynchronised(used, clocked_s, protocol.threads or 1, left_ms, median(times[0]) * calls[0])
    return Samples(
        model_ms=times[0],
        reference_ms=times[-1] if reference else (),
        calls=calls[0],
        settled=not short and not drift,
        doubts=(*short, *drift, *unseen, *hogged(used)),
    )


def _alternate(
    workloads: Sequence[Workload], calls: Sequence[int], clock: Clock, protocol: LatencyProtocol, began: float
) -> list[list[float]]:
    """Milliseconds by workload, those of one turn side by side."""
    times: list[list[float]] = [[] for _ in workloads]
    order = random.Random(0)
    check = max(protocol.min_samples, FEWEST)
    precise = False
    while not precise and _may_go_on(len(times[0]), time.perf_counter() - began, protocol):
        for i in order.sample(range(len(workloads)), len(workloads)):
            times[i].append(workloads[i].time_ms(clock, calls[i]))
        if len(times[0]) >= check:
            check = ceil(1.2 * len(times[0]))  # seldom enough that looking neither costs nor biases
            precise = _half_width(times) <= protocol.precision
    return times


def _may_go_on(samples: int, seconds: float, protocol: LatencyProtocol) -> bool:
    if samples < FEWEST:
        return True
    return seconds < protocol.max_seconds * (1 if samples >= protocol.min_samples else PATIENCE)


def _warm_up(workload: Workload, clock: Clock, seconds: float) -> tuple[float, bool]:
    """Run until passes get no faster, *seconds* at most; the fastest one's milliseconds, and whether it settled.

    It has settled when :data:`STEADY_PASSES` passes in a row are no more than :data:`STEADY` faster than the fastest
    one before the first of them: neighbours can slow a pass, only what warms up makes the fastest one faster.
    """
    deadline = time.perf_counter() + seconds
    fastest, before, steady = inf, inf, 0
    while steady < STEADY_PASSES and (fastest == inf or time.perf_counter() < deadline):
        ms = workload.time_ms(clock, 1)
        fastest = min(fastest, ms)
        if ms > before * (1 - STEADY):
            steady += 1
        else:
            before, steady = ms, 0
    return fastest, steady == STEADY_PASSES


def _left_ms(device: str) -> float:
    """How long a device still works on what it was given."""
    start = time.perf_counter_ns()
    synchronize(device)
    return (time.perf_counter_ns() - start) / 1e6


def _compared(times: Sequence[Sequence[float]]) -> Sequence[float]:
    """The ratios, or the milliseconds without a reference."""
    return times[0] if len(times) == 1 else [ours / theirs for ours, theirs in zip(*times, strict=True)]


def _half_width(times: Sequence[Sequence[float]]) -> float:
    """Half the 95 % interval of what is compared, relative to its median."""
    values = _compared(times)
    low, high = median_interval(values)
    return (high - low) / 2 / median(values)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
