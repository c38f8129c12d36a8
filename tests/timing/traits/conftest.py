"""Models whose passes take known times."""

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headtune.timing import LatencyProtocol


def busy(seconds: float) -> None:
    """Keep a core busy for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Busy(nn.Module):
    """Takes a fixed time, and a time for each example; adds one to what it is given."""

    def __init__(self, fixed_ms: float = 0.0, per_example_ms: float = 0.0) -> None:
        super().__init__()
        self.fixed_ms = fixed_ms
        self.per_example_ms = per_example_ms

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) → (B, D)."""
        busy((self.fixed_ms + self.per_example_ms * x.shape[0]) / 1e3)
        return x + 1


@pytest.fixture
def busy_module() -> Callable[..., nn.Module]:
    """Makes a module that takes ``fixed_ms + per_example_ms × examples`` and adds one to what it is given."""
    return Busy


@pytest.fixture
def protocol() -> LatencyProtocol:
    """A quick one, on one thread of the CPU."""
    return LatencyProtocol(device="cpu", threads=1, batch_size=4, min_samples=10, max_seconds=0.5)


@pytest.fixture
def inputs() -> Callable[[int, int | None], tuple[Tensor]]:
    """Examples of two features."""
    return lambda batch_size, seq_len: (torch.arange(2.0 * batch_size).reshape(batch_size, 2),)
