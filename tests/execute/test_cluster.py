"""How many trials a cluster holds, what it refuses, and what is said while a trial waits."""

import socket

import pytest
import ray

from headtune.errors import InputError
from headtune.execute.cluster import AGAIN_S, FIRST_S, Waiting, capacity, check_capacity, start
from headtune.trial import Silent

Machine = dict[str, float]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[Machine]:
    """Machines to be filled in; a dead one with plenty is always among them."""
    machines: list[Machine] = []
    dead = {"Alive": False, "Resources": {"CPU": 1000.0, "GPU": 1000.0}}
    monkeypatch.setattr(ray, "nodes", lambda: [dead, *({"Alive": True, "Resources": one} for one in machines)])
    return machines


@pytest.mark.parametrize(
    ("machines", "cpus", "gpus", "trials"),
    [
        ([{"CPU": 8.0}], 1, 0, 8),
        ([{"CPU": 8.0}], 3, 0, 2),
        ([{"CPU": 2.0}, {"CPU": 2.0}], 3, 0, 0),  # four CPUs, but no machine has three
        ([{"CPU": 3.0}, {"CPU": 3.0}], 2, 0, 2),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 64.0}], 1, 1, 2),
        ([{"CPU": 1.0, "GPU": 4.0}], 1, 0.25, 1),
        ([{"CPU": 100.0, "GPU": 3.0}], 1, 0.1, 30),
        ([{"CPU": 4.0}], 1, 0.5, 0),
    ],
)
def test_a_trial_lies_on_one_machine(
    cluster: list[Machine], machines: list[Machine], cpus: int, gpus: float, trials: int
) -> None:
    cluster += machines
    assert capacity(cpus, gpus) == trials


def test_what_fits_is_not_refused(cluster: list[Machine]) -> None:
    cluster += [{"CPU": 4.0}]
    check_capacity("local", 4, 0)


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ([{"CPU": 2.0}], "has 2 CPUs and 0 GPUs"),
        ([{"CPU": 2.0}, {"CPU": 2.0}], "has 2 CPUs and 0 GPUs"),
        ([{"CPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}], "has machines of 2 CPUs and 0 GPUs, of 1 CPU and 1 GPU"),
    ],
)
def test_what_no_machine_can_hold_is_refused(cluster: list[Machine], machines: list[Machine], said: str) -> None:
    cluster += machines
    with pytest.raises(InputError) as caught:
        check_capacity("big", 3, 0.5)
    assert str(caught.value) == (
        f"resources: a trial asks 3 CPUs and 0.5 GPUs; the big cluster {said}: "
        "ask less, or name a cluster that has them"
    )


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
    waiting = Waiting(notes, 1, 1, clock)
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
