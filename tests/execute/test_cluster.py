"""Reaching a cluster, and what is said while a trial waits."""

import socket

import pytest
import ray

from headtune.errors import InputError
from headtune.execute.cluster import AGAIN_S, FIRST_S, Waiting, start
from headtune.execute.demand import Demand
from headtune.trial import Silent


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_wait_is_told_after_a_while_then_seldom_and_forgotten_when_a_worker_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 3.0})
    notes, clock = Notes(), Clock()
    waiting = Waiting(notes, Demand(cpus=1, gpus=1), clock)
    told = []
    for seconds, waits in [
        (FIRST_S - 1, True),
        (FIRST_S, True),
        (FIRST_S + 1, True),
        (FIRST_S + AGAIN_S - 1, True),
        (FIRST_S + AGAIN_S, True),
        (FIRST_S + 2 * AGAIN_S, False),
        (FIRST_S + 2 * AGAIN_S + FIRST_S - 1, True),
        (FIRST_S + 2 * AGAIN_S + FIRST_S, True),
    ]:
        clock.now = 1000.0 + seconds
        waiting.look(waits=waits)
        told.append(len(notes.notes))
    assert told == [0, 1, 1, 1, 2, 2, 2, 3]
    assert set(notes.notes) == {
        "waiting for a free worker: a trial asks 1 CPU and 1 GPU; the cluster has 3 CPUs and 0 GPUs free now"
    }


def test_a_trial_that_is_bound_to_machines_hears_that_what_is_free_may_lie_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 3.0})
    notes, clock = Notes(), Clock()
    waiting = Waiting(notes, Demand(accelerator="A100"), clock)
    clock.now += FIRST_S
    waiting.look(waits=True)
    assert notes.notes == [
        "waiting for a free worker: a trial asks 1 CPU and 0 GPUs beside accelerator A100; the cluster has 3 CPUs and "
        "0 GPUs free now on all its machines together"
    ]


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_where_nobody_answers_is_refused_in_words_at_once(
    closed_port: int, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    address = form.format(closed_port)
    with pytest.raises(InputError) as caught:
        start(address, 1)
    assert str(caught.value) == (
        f"resources.cluster: no Ray cluster at {address!r} (ConnectionRefusedError: [Errno 111] Connection refused); "
        "start one with `ray start --head`, or use local"
    )
    assert capfd.readouterr() == ("", "")


def test_auto_looks_where_the_environment_says(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed_port}")
    with pytest.raises(InputError, match=r"^resources.cluster: no Ray cluster at 'auto' \(ConnectionRefusedError"):
        start("auto", 1)


def test_what_is_no_address_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"^resources.cluster: no Ray cluster at 'nonsense' \("):
        start("nonsense", 1)
    assert capfd.readouterr() == ("", "")
