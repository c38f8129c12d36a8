"""What holds while a model runs under a protocol."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from headtune.timing.protocol import LatencyProtocol


@contextmanager
def conditions(protocol: LatencyProtocol) -> Iterator[None]:
    """A resolved protocol's threads and no autocast; torch's random generators are put back afterwards."""
    device = torch.device(protocol.device)
    threads = torch.get_num_threads()
    torch.set_num_threads(protocol.threads or threads)
    try:
        with (
            torch.random.fork_rng(devices=[device.index] if device.type == "cuda" else []),
            torch.autocast(device.type, enabled=False),
        ):
            yield
    finally:
        torch.set_num_threads(threads)
