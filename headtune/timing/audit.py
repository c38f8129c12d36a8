"""What makes a finished measurement doubtful, each with a sentence of its own."""

from collections.abc import Sequence
from statistics import median

import torch

from headtune.timing.contention import Contention
from headtune.timing.interval import median_interval

WAITED = 0.10
"""From this share of the time on, others who have the cores are told of."""

UNFINISHED = 0.2
"""So much of a pass may still run when the clock has stopped: an empty queue is found empty in microseconds."""

BESIDE = 0.2
"""Threads beyond those of the protocol may compute so much of the time: Python's and Ray's own do a little."""

DRIFT = 0.05
"""A drift is told of from here on, where it is significant."""


def hogged(found: Contention) -> list[str]:
    """Whether others took the cores meanwhile."""
    doubts = []
    if found.waited > WAITED:
        doubts.append(
            f"other processes took the cores: this one waited for a core {found.waited:.0%} of the time; "
            f"end them, or mind that the milliseconds are too high where the ratio to the reference is not"
        )
    if found.stolen > WAITED:
        doubts.append(
            f"the hypervisor gave {found.stolen:.0%} of a core to other machines meanwhile; measure again, or on a "
            f"machine that is not shared"
        )
    return doubts


def unsynchronised(found: Contention, clocked_s: float, threads: int, left_ms: float, pass_ms: float) -> list[str]:
    """Whether work went on that the clock did not see.

    Args:
        found: what was used while samples were taken.
        clocked_s: what the clock saw of that time.
        threads: that a pass may use.
        left_ms: how long the device still worked when the last sample was taken.
        pass_ms: the median of the samples.
    """
    if left_ms > max(UNFINISHED * pass_ms, 0.1):
        return [
            f"the clock does not wait for the device: {left_ms:.3g} ms of work were left when the last pass of "
            f"{pass_ms:.3g} ms was over; synchronise before reading the clock"
        ]
    if found.beside > (threads - 1 + BESIDE) * clocked_s + 0.02:
        return [
            f"more was computed than the clock saw: other threads of this process took {found.beside:.3g} s of CPU in "
            f"{clocked_s:.3g} s, where {threads - 1} may help; forward returns before its work is done, or something "
            f"else computes in this process meanwhile"
        ]
    return []


def drifting(values: Sequence[float]) -> list[str]:
    """Whether the samples went on getting faster or slower: their first and last third differ significantly."""
    third = len(values) // 3
    first, last = values[:third], values[-third:]
    if third < 4:
        return []
    change = median(last) / median(first)
    (first_low, first_high), (last_low, last_high) = median_interval(first), median_interval(last)
    if abs(change - 1) <= DRIFT or (first_low <= last_high and last_low <= first_high):
        return []
    way = "faster: it was still warming up" if change < 1 else "slower: caches fill, or the device is throttled"
    return [f"the passes got {way} (from first to last third × {change:.3g}); warm up longer, or measure again"]


def unsettled(*, warm: bool, warm_up_s: float, half_width: float, precision: float) -> list[str]:
    """Whether the time was too short."""
    doubts = []
    if not warm:
        doubts.append(
            f"passes still got faster when the time to warm up was over ({warm_up_s:.2g} s); give a longer max_seconds"
        )
    if half_width > precision:
        doubts.append(
            f"the interval is ± {half_width:.1%}, wider than the ± {precision:.1%} that the protocol wants, "
            f"for the time it had; give a longer max_seconds"
        )
    return doubts


def random_state() -> tuple[bytes, ...]:
    """Where torch's generators stand: to be compared before and after a pass."""
    states = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]
    return tuple(state.numpy().tobytes() for state in states)


DRAWS = (
    "the pass draws random numbers in eval mode, as dropout does that is always on (F.dropout without "
    "training=self.training): they are timed too"
)

CONTENDED = "others kept the device busy longer than the lane's patience, so it was timed beside them"
