"""What holds while a model runs under a protocol."""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from headtune.errors import InputError
from headtune.timing.protocol import LatencyProtocol


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@contextmanager
def conditions(protocol: LatencyProtocol) -> Iterator[None]:
    """A resolved protocol's threads and no autocast; random generators are put back afterwards, NumPy's too.

    Raises:
        InputError: more threads than this process has cores, which would wait for each other.
    """
    if protocol.threads is not None and protocol.threads > cores():
        raise InputError(
            f"latency.threads is {protocol.threads} (auto: the trial's CPUs), but this process may use "
            f"{cores()} {'core' if cores() == 1 else 'cores'}; ask for no more"
        )
    device = torch.device(protocol.device)
    threads = torch.get_num_threads()
    drawn, numpy_drawn = random.getstate(), np.random.get_state()
    torch.set_num_threads(protocol.threads or threads)
    try:
        with (
            torch.random.fork_rng(
                devices=[] if device.type == "cpu" else [device.index or 0],
                device_type="cuda" if device.type == "cpu" else device.type,
            ),
            torch.autocast(device.type, enabled=False),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(drawn)
        np.random.set_state(numpy_drawn)
