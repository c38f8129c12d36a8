"""Clocks: how long some calls take on a device, the device's own queue included."""

import time
from collections.abc import Callable

import torch

from headtune.timing.device import synchronize

Clock = Callable[[Callable[[], object], int], float]
"""``(call, calls) -> ms`` for all the calls together."""


def clock_of(device: str) -> Clock:
    """The clock for a concrete device: events on CUDA, the process's clock around a synchronised queue elsewhere."""
    return _cuda_clock(torch.device(device)) if device.startswith("cuda") else _wall_clock(device)


def _wall_clock(device: str) -> Clock:
    def wall_ms(call: Callable[[], object], calls: int) -> float:
        synchronize(device)  # an empty queue: else earlier work would be timed too
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        synchronize(device)
        return (time.perf_counter_ns() - start) / 1e6

    return wall_ms


def _cuda_clock(device: torch.device) -> Clock:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    # Twice the cache, written before each call: a call in a row would else find its weights there, as no user's does.
    flush = torch.empty(2 * torch.cuda.get_device_properties(device).L2_cache_size, dtype=torch.int8, device=device)

    def cuda_ms(call: Callable[[], object], calls: int) -> float:
        total = 0.0
        with torch.cuda.device(device):
            for _ in range(calls):
                flush.zero_()
                torch.cuda.synchronize(device)  # an empty queue: else launching would hide behind earlier work
                start.record()
                call()
                end.record()
                end.synchronize()
                total += start.elapsed_time(end)
        return total

    return cuda_ms
