"""Clocks: how long some calls take on a device, the device's own queue included."""

import time
from collections.abc import Callable

import torch

Clock = Callable[[Callable[[], object], int], float]
"""``(call, calls) -> ms`` for all the calls together."""


def clock_of(device: str) -> Clock:
    """The clock for a concrete device: CUDA events on a GPU, the process's clock on the CPU."""
    return _cuda_clock(torch.device(device)) if device.startswith("cuda") else _cpu_ms


def _cpu_ms(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - start) / 1e6


def _cuda_clock(device: torch.device) -> Clock:
    def cuda_ms(call: Callable[[], object], calls: int) -> float:
        with torch.cuda.device(device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize(device)  # an empty queue: else earlier work would be timed too
            start.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end))

    return cuda_ms
