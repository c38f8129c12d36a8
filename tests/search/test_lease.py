import json
import os
import re
import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection

from headtune.errors import StudyBusyError
from headtune.search import lease as module
from headtune.search.facts import Facts
from headtune.search.lease import EXPIRES_S, Holder, Lease, take_lock
from headtune.search.lock import FileLock

ELSEWHERE = Holder(id="x", host="far", pid=7, lock="/their/lock (1:2)", since="2026-01-02 03:04:05")


class Clock:
    """Both clocks of the lease, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def facts() -> Facts:
    storage = InMemoryStorage()
    return Facts(storage, storage.create_new_study([StudyDirection.MINIMIZE], "study"))


def locked(path: Path) -> FileLock:
    lock = FileLock(path)
    take_lock(lock, "vit")
    return lock


def keep(facts: Facts, holder: Holder, beat: float) -> None:
    facts.remember("lease", {"holder": asdict(holder), "beat": beat})


def test_a_live_driver_elsewhere_is_named_with_the_time_it_has_left(tmp_path: Path, facts: Facts, clock: Clock) -> None:
    keep(facts, ELSEWHERE, clock.now - 30)
    with pytest.raises(StudyBusyError) as caught:
        Lease.take(locked(tmp_path / "lock"), facts, "vit")
    assert str(caught.value) == (
        "study 'vit' is being run by process 7 on far, since 2026-01-02 03:04:05; end that one first, or wait: "
        f"if it is dead, it loses the study in {EXPIRES_S - 30} s"
    )
    assert facts.recall("lease")["holder"]["host"] == "far", "a refused driver changes nothing"


def test_a_driver_elsewhere_that_is_silent_for_too_long_loses_the_study(
    tmp_path: Path, facts: Facts, clock: Clock
) -> None:
    keep(facts, ELSEWHERE, clock.now - EXPIRES_S)
    assert Lease.take(locked(tmp_path / "lock"), facts, "vit").held()


def test_a_dead_driver_with_our_own_lock_loses_the_study_at_once(tmp_path: Path, facts: Facts, clock: Clock) -> None:
    lock = locked(tmp_path / "lock")
    keep(facts, Holder(id="x", host=socket.gethostname(), pid=7, lock=lock.identity, since=""), clock.now)
    assert Lease.take(lock, facts, "vit").held()


@pytest.mark.parametrize("same", ["host", "lock"])
def test_a_driver_whose_lock_only_looks_like_ours_keeps_the_study(
    tmp_path: Path, facts: Facts, clock: Clock, same: str
) -> None:
    lock = locked(tmp_path / "lock")
    ours = {"host": socket.gethostname(), "lock": lock.identity}
    keep(facts, Holder(**{**asdict(ELSEWHERE), same: ours[same]}), clock.now)
    with pytest.raises(StudyBusyError):
        Lease.take(lock, facts, "vit")


def test_beats_are_few_and_keep_others_away(tmp_path: Path, facts: Facts, clock: Clock) -> None:
    lease = Lease.take(locked(tmp_path / "lock"), facts, "vit")
    began = facts.recall("lease")["beat"]
    clock.now += 9
    lease.beat()
    assert facts.recall("lease")["beat"] == began
    clock.now += 1
    lease.beat()
    assert facts.recall("lease")["beat"] == began + 10


def test_a_driver_that_was_taken_over_stops_and_leaves_the_study_alone(
    tmp_path: Path, facts: Facts, clock: Clock
) -> None:
    lease = Lease.take(locked(tmp_path / "lock"), facts, "vit")
    keep(facts, ELSEWHERE, clock.now)
    clock.now += 10
    with pytest.raises(StudyBusyError) as caught:
        lease.beat()
    assert str(caught.value) == (
        "study 'vit' was taken over by process 7 on far, since 2026-01-02 03:04:05 while this one was silent for more "
        f"than {EXPIRES_S} s; run one driver at a time"
    )
    lease.release()
    assert facts.recall("lease")["holder"]["host"] == "far"


def test_a_lease_given_back_is_free_for_anyone(tmp_path: Path, facts: Facts) -> None:
    lease = Lease.take(locked(tmp_path / "lock"), facts, "vit")
    lease.release()
    lease.release()
    assert facts.recall("lease") is None
    assert Lease.take(locked(tmp_path / "lock"), facts, "vit").held()


def test_a_holder_on_this_machine_is_named_by_its_lock(tmp_path: Path, facts: Facts) -> None:
    lease = Lease.take(locked(tmp_path / "lock"), facts, "vit")
    with pytest.raises(StudyBusyError) as caught:
        take_lock(FileLock(tmp_path / "lock"), "vit")
    assert re.fullmatch(
        rf"study 'vit' is being run by process {os.getpid()} on {re.escape(socket.gethostname())}, "
        r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d; end that one first, or choose another name or output",
        str(caught.value),
    )
    lease.release()


def test_a_holder_that_has_not_written_its_name_yet_is_another_process(tmp_path: Path) -> None:
    lock = locked(tmp_path / "lock")
    with pytest.raises(StudyBusyError, match=r"^study 'vit' is being run by another process on this machine; "):
        take_lock(FileLock(tmp_path / "lock"), "vit")
    lock.write(json.dumps(asdict(ELSEWHERE)))
    with pytest.raises(StudyBusyError, match="process 7 on far"):
        take_lock(FileLock(tmp_path / "lock"), "vit")


@pytest.mark.parametrize("work", [Lease.alone, Lease.held, Lease.beat, Lease.release])
def test_a_process_forked_from_the_holder_ends_where_it_drives_on(
    tmp_path: Path, facts: Facts, work: Callable[[Lease], object]
) -> None:
    lease = Lease.take(locked(tmp_path / "lock"), facts, "vit")
    child = os.fork()
    if child == 0:
        work(lease)
        os._exit(9)  # never reached
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lease.held()


def test_the_lock_alone_can_be_dropped(tmp_path: Path, facts: Facts) -> None:
    lease = Lease.take(locked(tmp_path / "lock"), facts, "vit")
    lease.drop()
    lease.drop()
    assert lease.held(), "the storage was not asked"
    assert FileLock(tmp_path / "lock").take()
