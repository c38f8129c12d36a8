"""One driver per study: a kernel lock on this machine, and a sign of life in the storage for all others."""

import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import datetime

from headtune.errors import StudyBusyError
from headtune.search.facts import Facts
from headtune.search.lock import FileLock
from headtune.trial.forks import end_fork

EXPIRES_S = 120
"""A driver on another machine that gave no sign of life for so long is taken for dead."""

_BEAT_S = 10
_NAME = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who drives a study.

    Attributes:
        lock: which lock file it holds; where that is ours, on the same host, the kernel knows who is alive.
        since: when the driver began, local time.
    """

    id: str
    host: str
    pid: int
    lock: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class Lease:
    """The right to write to a study.

    On one machine a ``kill -9`` frees it at once, since the kernel drops the lock. Elsewhere it ends when the holder
    gives it back, or when its last sign of life is older than :data:`EXPIRES_S`.
    """

    def __init__(self, lock: FileLock, facts: Facts, holder: Holder, study: str) -> None:
        self._lock = lock
        self._facts = facts
        self._holder = holder
        self._study = study
        self._beaten = 0.0

    @classmethod
    def take(cls, lock: FileLock, facts: Facts, study: str) -> "Lease":
        """Take the lease with a *lock* that is already held.

        Raises:
            StudyBusyError: a driver on another machine holds it and is alive.
        """
        me = _me(lock)
        other, beat = _read(facts)
        if other is not None and (other.host, other.lock) != (me.host, me.lock):
            left = EXPIRES_S - (time.time() - beat)
            if left > 0:
                raise StudyBusyError(
                    f"study {study!r} is being run by {other}; end that one first, or wait: "
                    f"if it is dead, it loses the study in {left:.0f} s"
                )
        lock.write(json.dumps(asdict(me)))
        lease = cls(lock, facts, me, study)
        lease._write()
        lease.beat(force=True)
        return lease

    def alone(self) -> None:
        """End a process that was forked from the holder and drives on, without a word: it would be a second driver."""
        end_fork(self._holder.pid)

    def beat(self, *, force: bool = False) -> None:
        """Give a sign of life; costs nothing when the last one is fresh.

        Raises:
            StudyBusyError: another driver took the study over, since this one was silent for too long.
        """
        self.alone()
        if not force and time.monotonic() - self._beaten < _BEAT_S:
            return
        if not self.held():
            other, _ = _read(self._facts)
            raise StudyBusyError(
                f"study {self._study!r} was taken over by {other or 'a driver that has ended'} while this one was "
                f"silent for more than {EXPIRES_S} s; run one driver at a time"
            )
        self._write()

    def held(self) -> bool:
        """Whether no other driver took the study over."""
        self.alone()
        other, _ = _read(self._facts)
        return other is not None and other.id == self._holder.id

    def release(self) -> None:
        """Give the study back; a second call does nothing."""
        try:
            if self.held():
                self._facts.remember(_NAME, None)
        finally:
            self.drop()

    def drop(self) -> None:
        """Let go of the lock alone, where the storage is out of reach."""
        self._lock.release()

    def _write(self) -> None:
        self._facts.remember(_NAME, {"holder": asdict(self._holder), "beat": time.time()})
        self._beaten = time.monotonic()


def take_lock(lock: FileLock, study: str) -> None:
    """Take the kernel's lock.

    Raises:
        StudyBusyError: another driver on this machine, or this very process, holds it.
    """
    if lock.take():
        return
    text = lock.read()
    lock.close()
    # Between taking the lock and writing its name a driver is anonymous for a moment.
    who = str(Holder(**json.loads(text))) if text else "another process on this machine"
    raise StudyBusyError(f"study {study!r} is being run by {who}; end that one first, or choose another name or output")


def _me(lock: FileLock) -> Holder:
    return Holder(
        id=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=os.getpid(),
        lock=lock.identity,
        since=datetime.now().isoformat(sep=" ", timespec="seconds"),
    )


def _read(facts: Facts) -> tuple[Holder | None, float]:
    kept = facts.recall(_NAME)
    return (None, 0.0) if kept is None else (Holder(**kept["holder"]), float(kept["beat"]))
