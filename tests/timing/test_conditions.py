import os
import random
import subprocess

import numpy as np
import pytest
import torch

from headtune.errors import InputError
from headtune.timing import LatencyProtocol
from headtune.timing.conditions import conditions, cores

PROTOCOL = LatencyProtocol(device="cpu", threads=2)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_the_protocols_threads_hold_inside_only() -> None:
    with conditions(PROTOCOL):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 1


def test_everything_is_put_back_after_an_error() -> None:
    state = torch.get_rng_state()

    def break_inside() -> None:
        with conditions(PROTOCOL):
            torch.rand(3)
            raise KeyError

    with pytest.raises(KeyError):
        break_inside()
    assert torch.get_num_threads() == 1
    assert torch.equal(torch.get_rng_state(), state)


def test_numbers_drawn_inside_do_not_move_the_global_generator() -> None:
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    with conditions(PROTOCOL):
        torch.rand(1000)
    assert torch.equal(torch.rand(4), expected)


def test_autocast_of_the_caller_does_not_reach_inside() -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with conditions(PROTOCOL):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16


def test_more_threads_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr("headtune.timing.conditions.cores", lambda: 2)
    with conditions(LatencyProtocol(device="cpu", threads=2)):
        assert torch.get_num_threads() == 2
    with pytest.raises(InputError) as caught, conditions(LatencyProtocol(device="cpu", threads=3)):
        pass
    assert str(caught.value) == (
        "latency.threads is 3 (auto: the trial's CPUs), but this process may use 2 cores; ask for no more"
    )
    assert torch.get_num_threads() == before


def test_cores_are_those_of_the_process_not_of_the_machine() -> None:
    count = subprocess.run(["nproc"], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    assert cores() == int(count.stdout)


def test_generators_of_python_and_numpy_are_put_back() -> None:
    random.seed(0)
    np.random.seed(0)
    expected = (random.random(), np.random.rand())
    random.seed(0)
    np.random.seed(0)
    with conditions(PROTOCOL):
        random.random()
        np.random.rand()
    assert (random.random(), np.random.rand()) == expected
