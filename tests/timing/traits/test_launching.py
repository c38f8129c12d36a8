"""What a pass is bound by: planted times, and a matrix that is too large for any cache."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from headtune.timing import LatencyProtocol
from headtune.timing.traits import launch_test
from headtune.timing.traits.launching import _read_whole, _reading, bound_by

Inputs = Callable[[int, int | None], tuple[Tensor]]
Make = Callable[..., nn.Module]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_planted_fixed_time_is_found(
    batch_size: int, busy_module: Make, protocol: LatencyProtocol, inputs: Inputs
) -> None:
    protocol = replace(protocol, batch_size=batch_size)
    found = launch_test(busy_module(fixed_ms=0.75, per_example_ms=0.25 / batch_size), inputs, protocol)
    assert found is not None
    assert found.fixed == pytest.approx(0.75, abs=5e-3)
    assert found.fixed_interval[0] <= found.fixed <= found.fixed_interval[1]
    assert found.batch_sizes == (batch_size, 2)
    assert found.bound == "launch"
    assert found.weights is not None
    assert found.weights < 5e-3


def test_work_is_no_launching(busy_module: Make, protocol: LatencyProtocol, inputs: Inputs) -> None:
    found = launch_test(busy_module(per_example_ms=0.25), inputs, protocol)
    assert found is not None
    assert found.bound == "work"
    assert found.fixed == pytest.approx(0, abs=5e-3)
    assert found.weights is None


def test_inputs_that_do_not_follow_the_batch_tell_nothing(busy_module: Make, protocol: LatencyProtocol) -> None:
    assert launch_test(busy_module(0.1), lambda batch_size, seq_len: (torch.zeros(3, 2),), protocol) is None


@pytest.mark.parametrize("batch_size", [24, 6])
def test_the_sizes_that_inputs_really_return_count(
    batch_size: int, busy_module: Make, protocol: LatencyProtocol
) -> None:
    # Pure work by the example, asked for 24 and 12 or 6 and 3 of them, and given 16 and 12, 6 and 4.
    def capped(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
        return (torch.zeros(min(max(batch_size, 4), 16), 2),)

    found = launch_test(busy_module(per_example_ms=0.25), capped, replace(protocol, batch_size=batch_size))
    assert found is not None
    assert found.bound == "work"
    assert found.fixed == pytest.approx(0, abs=0.01)


def test_reading_does_not_depend_on_the_default_type() -> None:
    layer = nn.Linear(64, 64)
    torch.set_default_dtype(torch.float64)
    try:
        assert _reading(layer, torch.device("cpu"))().dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.slow
def test_weights_that_are_read_once_a_pass_are_no_launching(protocol: LatencyProtocol) -> None:
    model = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(4)))  # 268 MB for one example
    protocol = replace(protocol, batch_size=1)
    found = launch_test(model, lambda batch_size, seq_len: (torch.ones(batch_size, 4096),), protocol)
    assert found is not None
    assert found.bound != "launch"


@pytest.mark.parametrize(
    ("fixed", "weights", "bound"),
    [
        ((0.1, 0.4), None, "work"),
        ((0.4, 0.6), None, "unclear"),
        ((0.8, 1.0), 0.1, "launch"),
        ((0.8, 1.0), 0.5, "weights"),
    ],
)
def test_the_criterion(fixed: tuple[float, float], weights: float | None, bound: str) -> None:
    assert bound_by(fixed, weights) == bound


def test_embeddings_are_looked_up_and_not_read() -> None:
    embedding, tied = nn.Embedding(10, 4), nn.Embedding(8, 4)
    head = nn.Linear(4, 8)
    head.weight = tied.weight
    assert sum(weight.numel() for weight in _read_whole(nn.ModuleList([embedding, tied, head]))) == 8 * 4 + 8
