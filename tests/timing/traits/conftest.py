"""Models whose passes take known times."""

from collections.abc import Callable
from typing import Protocol

import pytest
import torch
from torch import Tensor, nn

from headtune.timing import LatencyProtocol


class Clock(Protocol):
    """What time is planted in."""

    def take(self, ms: float) -> None:
        """Let time pass."""


class Busy(nn.Module):
    """Takes a fixed time, and a time for each example; adds one to what it is given."""

    def __init__(self, clock: Clock, fixed_ms: float, per_example_ms: float) -> None:
        super().__init__()
        self.take = clock.take
        self.fixed_ms = fixed_ms
        self.per_example_ms = per_example_ms

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) → (B, D)."""
        self.take(self.fixed_ms + self.per_example_ms * x.shape[0])
        return x + 1


@pytest.fixture
def busy_module(planted_time: Clock) -> Callable[..., nn.Module]:
    """Makes a module that takes ``fixed_ms + per_example_ms × examples`` and adds one to what it is given."""

    def make(fixed_ms: float = 0.0, per_example_ms: float = 0.0) -> nn.Module:
        return Busy(planted_time, fixed_ms, per_example_ms)

    return make


@pytest.fixture
def protocol() -> LatencyProtocol:
    """A quick one, on one thread of the CPU."""
    return LatencyProtocol(device="cpu", threads=1, batch_size=4, min_samples=10, max_seconds=0.5)


@pytest.fixture
def inputs() -> Callable[[int, int | None], tuple[Tensor]]:
    """Examples of two features."""
    return lambda batch_size, seq_len: (torch.arange(2.0 * batch_size).reshape(batch_size, 2),)
