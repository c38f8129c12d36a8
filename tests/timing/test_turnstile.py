import contextlib
import fcntl
import functools
import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pytest

from headtune.errors import StorageError
from headtune.timing.turnstile import Turnstile, turnstile

processes = multiprocessing.get_context("fork")
SOON_S = 5.0
"""Bound of every wait: far more than any takes, so that only a real hang meets it."""


def nothing() -> None:
    pass


class Crew:
    """Child processes that end with the test."""

    def __init__(self) -> None:
        self.members: list[BaseProcess] = []

    def start(self, work: Callable[..., None], *args: object) -> BaseProcess:
        process = processes.Process(target=work, args=args, daemon=True)
        process.start()
        self.members.append(process)
        return process

    def end(self) -> None:
        for process in self.members:
            process.kill()
            process.join(SOON_S)


@pytest.fixture
def crew() -> Iterator[Crew]:
    members = Crew()
    yield members
    members.end()


def hold_share(path: Path, holding: Event) -> None:
    turnstile(path).enter()
    holding.set()
    time.sleep(60)


def hold_alone(path: Path, holding: Event) -> None:
    with turnstile(path).alone(SOON_S):
        holding.set()
        time.sleep(60)


def work(path: Path, passes: "multiprocessing.sharedctypes.Synchronized[int]", pass_s: float) -> None:
    turnstile(path).enter()
    while True:
        turnstile(path).give_way(nothing)
        passes.value += 1
        end = time.perf_counter() + pass_s
        while time.perf_counter() < end:
            pass


def started(crew: Crew, body: Callable[[Path, Event], None], path: Path) -> BaseProcess:
    holding = processes.Event()
    process = crew.start(body, path, holding)
    assert holding.wait(SOON_S)
    return process


def kill(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)


def contended(path: Path, patience_s: float) -> bool:
    with turnstile(path).alone(patience_s) as was_contended:
        return was_contended


def test_shares_do_not_exclude_each_other(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    for _ in range(3):
        started(crew, hold_share, path)
    turnstile(path).enter()
    turnstile(path).leave()


def test_alone_excludes_shares_until_patience_ends(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    started(crew, hold_share, path)
    began = time.monotonic()
    assert contended(path, 0.2)
    assert 0.2 <= time.monotonic() - began < SOON_S


def test_a_share_waits_for_the_one_who_is_alone(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    holding = processes.Event()
    with turnstile(path).alone(0.0) as was_contended:
        assert not was_contended
        crew.start(hold_share, path, holding)
        assert not holding.wait(0.3)
    assert holding.wait(SOON_S)


@pytest.mark.parametrize("body", [hold_share, hold_alone])
def test_a_killed_holder_frees_the_lane(crew: Crew, tmp_path: Path, body: Callable[[Path, Event], None]) -> None:
    path = tmp_path / "cpu"
    holder = started(crew, body, path)
    assert contended(path, 0.05)
    kill(holder)
    assert not contended(path, SOON_S)


def test_a_share_that_waits_gets_the_lane_of_a_killed_measurer(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    holder = started(crew, hold_alone, path)
    holding = processes.Event()
    crew.start(hold_share, path, holding)
    assert not holding.wait(0.2)
    kill(holder)
    assert holding.wait(SOON_S)


def hold_share_with_a_child(path: Path, holding: Event) -> None:
    turnstile(path).enter()
    if os.fork():
        time.sleep(60)
    holding.set()
    time.sleep(3)
    os._exit(0)


def test_a_forked_child_does_not_keep_its_killed_parents_lane(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    parent = started(crew, hold_share_with_a_child, path)
    assert contended(path, 0.05)
    began = time.monotonic()
    kill(parent)
    assert not contended(path, SOON_S)
    assert time.monotonic() - began < 2  # the child lives for three seconds


def leave_in_child(path: Path, left: Event) -> None:
    turnstile(path).leave()
    turnstile(path).give_way(nothing)
    left.set()


def test_a_forked_child_that_leaves_does_not_free_its_parents_share(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    turnstile(path).enter()
    left = processes.Event()
    crew.start(leave_in_child, path, left)
    assert left.wait(SOON_S)
    verdict = processes.Queue()
    crew.start(lambda: verdict.put(contended(path, 0.05)))
    assert verdict.get(timeout=SOON_S)
    turnstile(path).leave()


def test_a_measurer_gets_in_among_busy_workers_who_then_hold_still(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    counters = [processes.Value("i", 0, lock=False) for _ in range(4)]
    for counter in counters:
        crew.start(work, path, counter, 0.002)
    until(functools.partial(all_above, counters, [5] * len(counters)))
    for _ in range(5):
        with turnstile(path).alone(SOON_S) as was_contended:
            assert not was_contended
            before = [counter.value for counter in counters]
            time.sleep(0.05)
            assert [counter.value for counter in counters] == before
        until(functools.partial(all_above, counters, before))


def all_above(counters: "list[multiprocessing.sharedctypes.Synchronized[int]]", marks: list[int]) -> bool:
    return all(counter.value > mark for counter, mark in zip(counters, marks, strict=True))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_who_works_may_measure_without_waiting_for_itself(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    passes = processes.Value("i", 0, lock=False)
    crew.start(work, path, passes, 0.001)
    until(lambda: passes.value > 5)
    turnstile(path).enter()
    with turnstile(path).alone(SOON_S) as was_contended:
        assert not was_contended
        before = passes.value
        time.sleep(0.05)
        assert passes.value == before
        turnstile(path).give_way(nothing)  # its own passes, while it measures, yield to no one
        turnstile(path).enter()
        turnstile(path).leave()
        with turnstile(path).alone(0.0) as nested:
            assert not nested
        assert locked(tmp_path / "cpu.gate")
        assert locked(tmp_path / "cpu.floor")
        assert passes.value == before
    until(lambda: passes.value > before)
    turnstile(path).leave()


def locked(file: Path) -> bool:
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def measure_itself(path: Path, ready: Barrier, verdicts: "multiprocessing.queues.Queue[bool]") -> None:
    turnstile(path).enter()
    ready.wait(SOON_S)
    for _ in range(5):
        with turnstile(path).alone(SOON_S) as was_contended:
            verdicts.put(was_contended)
            time.sleep(0.01)
        for _ in range(10):
            turnstile(path).give_way(nothing)
            time.sleep(0.001)
    turnstile(path).leave()


def test_trials_that_measure_themselves_at_once_do_not_wait_for_each_others_shares(crew: Crew, tmp_path: Path) -> None:
    ready, verdicts = processes.Barrier(3), processes.Queue()
    for _ in range(3):
        crew.start(measure_itself, tmp_path / "cpu", ready, verdicts)
    assert [verdicts.get(timeout=3 * SOON_S) for _ in range(15)] == [False] * 15


def test_the_share_is_taken_again_after_measuring_and_freed_by_the_last_leave(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    asked, verdicts = processes.Event(), processes.Queue()

    def judge() -> None:
        for _ in range(3):
            asked.wait(SOON_S)
            asked.clear()
            verdicts.put(contended(path, 0.05))

    crew.start(judge)
    ours = turnstile(path)
    ours.enter()
    ours.enter()
    with ours.alone(SOON_S):
        pass
    for expected in (True, True, False):
        asked.set()
        assert verdicts.get(timeout=SOON_S) is expected
        ours.leave()


def test_the_device_is_finished_before_the_floor_is_given_and_only_when_one_waits(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    ours = turnstile(path)
    finished: list[bool] = []
    ours.enter()
    ours.give_way(lambda: finished.append(True))
    assert finished == []
    measured = processes.Event()

    def measure_once() -> None:
        with turnstile(path).alone(SOON_S):
            measured.set()

    crew.start(measure_once)
    while not measured.is_set():
        ours.give_way(lambda: finished.append(measured.is_set()))
    assert finished[0] is False
    ours.leave()


def test_without_a_share_there_is_nothing_to_give(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    started(crew, hold_alone, path)
    turnstile(path).give_way(lambda: pytest.fail("nothing was held"))


def take_a_turn(
    path: Path, patience_s: float, turns: "multiprocessing.queues.Queue[tuple[float, float, bool]]"
) -> None:
    with turnstile(path).alone(patience_s) as was_contended:
        began = time.monotonic()
        time.sleep(0.4)
        turns.put((began, time.monotonic(), was_contended))


def test_measurers_take_turns_and_patience_begins_anew_with_each(crew: Crew, tmp_path: Path) -> None:
    turns: multiprocessing.queues.Queue[tuple[float, float, bool]] = processes.Queue()
    for _ in range(5):  # the last waits for 1.6 s, over any single turn with its patience of 1 s
        crew.start(take_a_turn, tmp_path / "cpu", 1.0, turns)
    taken = sorted(turns.get(timeout=4 * SOON_S) for _ in range(5))
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(taken))
    assert not any(was_contended for _, _, was_contended in taken)


def test_a_measurer_that_hangs_is_not_waited_for_for_ever(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    started(crew, hold_alone, path)
    assert contended(path, 0.2)
    assert contended(path, 0.2)  # and again: the one in vain left nothing behind


def test_a_thread_of_the_same_trial_holds_still_too(tmp_path: Path) -> None:
    ours = turnstile(tmp_path / "cpu")
    ours.enter()
    passed = threading.Event()

    def forward() -> None:
        ours.give_way(nothing)
        passed.set()

    with ours.alone(0.0) as was_contended:
        assert not was_contended
        thread = threading.Thread(target=forward)
        thread.start()
        assert not passed.wait(0.2)
    assert passed.wait(SOON_S)
    thread.join()
    ours.leave()


def test_an_error_while_measuring_frees_the_lane(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    with contextlib.suppress(KeyError), turnstile(path).alone(0.0):
        raise KeyError
    started(crew, hold_share, path)


def test_one_process_has_one_turnstile_for_one_path(tmp_path: Path) -> None:
    assert turnstile(tmp_path / "cpu") is turnstile(tmp_path / "cpu")
    assert turnstile(tmp_path / "cpu") is not turnstile(tmp_path / "cuda")


def test_devices_do_not_wait_for_each_other(crew: Crew, tmp_path: Path) -> None:
    started(crew, hold_alone, tmp_path / "cuda-0")
    assert not contended(tmp_path / "cuda-1", 0.0)


def test_the_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    assert not contended(tmp_path / "new" / "lane" / "cpu", 0.0)
    assert (tmp_path / "new" / "lane").stat().st_mode & 0o777 == 0o700
    assert sorted(file.name for file in (tmp_path / "new" / "lane").iterdir()) == ["cpu.floor", "cpu.gate"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as caught:
        Turnstile(tmp_path / "file" / "cpu").enter()
    assert str(caught.value) == (
        f"the lane's lock file {tmp_path}/file/cpu.floor cannot be opened (File exists); "
        "give the lane a folder that this user can write, on this node's own disk"
    )
