import time

import pytest
import torch

from headtune.timing.clock import clock_of

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_the_cpu_clock_times_all_calls_together() -> None:
    # A sleep never ends early; how late it ends is the machine's affair.
    assert clock_of("cpu")(lambda: time.sleep(0.002), 5) >= 10.0


def test_every_call_is_made_once() -> None:
    made: list[None] = []
    clock_of("cpu")(lambda: made.append(None), 7)
    assert len(made) == 7


@gpu
@pytest.mark.gpu
def test_the_cuda_clock_times_the_device_and_not_the_launch() -> None:
    cycles = 100_000_000  # tens of milliseconds at any clock under 10 GHz; a launch takes microseconds
    clock = clock_of("cuda:0")
    clock(lambda: torch.cuda._sleep(1000), 1)
    one, three = (clock(lambda: torch.cuda._sleep(cycles), calls) for calls in (1, 3))
    assert one >= 10
    assert three == pytest.approx(3 * one, rel=0.1)


@gpu
@pytest.mark.gpu
def test_earlier_work_in_the_queue_is_not_timed() -> None:
    clock = clock_of("cuda:0")
    torch.cuda._sleep(1_000_000_000)
    assert clock(lambda: torch.cuda._sleep(1000), 1) < 50
