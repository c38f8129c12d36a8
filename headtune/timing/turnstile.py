"""The two lock files of a lane, and one process's hold on them.

``gate`` is what measurers queue at; ``floor`` is shared by those who work and taken alone by the one who measures.
Whoever wants the floor passes the gate first, so that workers cannot keep a measurer waiting by taking turns. The locks
are ``flock``'s: the kernel frees them when the process ends, however it ends.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headtune.errors import StorageError

GATE_POLL_S = 0.005
FLOOR_POLL_S = 0.001
_CLOSED = -1


class Turnstile:
    """One process's hold on a lane. Its threads share the hold: they are one trial."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gate = self._floor = _CLOSED
        self._mutex = threading.RLock()
        self._workers = 0
        self._measuring = False
        self._contended = False

    def enter(self) -> None:
        """Take the floor with the others, once no measurer is at work or waits."""
        with self._mutex:
            self._open()
            if not self._workers and not self._measuring:
                self._share_floor()
            self._workers += 1

    def leave(self) -> None:
        """Undo one :meth:`enter`."""
        with self._mutex:
            if not self._workers:
                return  # a forked child, which left with the fork
            self._workers -= 1
            if not self._workers and not self._measuring:
                fcntl.flock(self._floor, fcntl.LOCK_UN)

    def give_way(self, finish: Callable[[], None]) -> None:
        """Let a waiting measurer have the floor, after *finish*; return when it is ours again."""
        with self._mutex:
            if not self._workers or self._measuring:
                return
            if _try_lock(self._gate, fcntl.LOCK_SH):
                fcntl.flock(self._gate, fcntl.LOCK_UN)
                return
            finish()
            fcntl.flock(self._floor, fcntl.LOCK_UN)
            self._share_floor()

    @contextmanager
    def alone(self, patience_s: float) -> Iterator[bool]:
        """Hold the floor alone; yields whether it was not to be had in time.

        The process's own share is given back for as long: it cannot wait for itself.
        """
        with self._mutex:
            if self._measuring:
                yield self._contended
                return
            self._open()
            self._measuring = True
            try:
                if self._workers:
                    fcntl.flock(self._floor, fcntl.LOCK_UN)
                self._contended = not (self._take_gate(patience_s) and self._take_floor(patience_s))
                yield self._contended
            finally:
                self._measuring = False
                self._end_turn()

    def abandon(self) -> None:
        """Forget the hold without freeing it: for a forked child, whose parent still has it."""
        self._mutex = threading.RLock()
        self._workers, self._measuring = 0, False
        if self._gate != _CLOSED:
            os.close(self._gate)
            os.close(self._floor)
            self._gate = self._floor = _CLOSED

    def _open(self) -> None:
        if self._gate == _CLOSED:
            self._floor = _opened(self._path.with_name(f"{self._path.name}.floor"))
            self._gate = _opened(self._path.with_name(f"{self._path.name}.gate"))

    def _share_floor(self) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_SH)
        try:
            fcntl.flock(self._floor, fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _take_gate(self, patience_s: float) -> bool:
        """Wait for the measurers before us; patience begins anew with each one's turn."""
        began = time.time()
        while not _try_lock(self._gate, fcntl.LOCK_EX):
            if time.time() - max(began, os.fstat(self._gate).st_mtime) > patience_s:
                return False
            time.sleep(GATE_POLL_S)
        os.utime(self._gate)
        return True

    def _take_floor(self, patience_s: float) -> bool:
        began = time.monotonic()
        while not _try_lock(self._floor, fcntl.LOCK_EX):
            if time.monotonic() - began > patience_s:
                return False
            time.sleep(FLOOR_POLL_S)
        return True

    def _end_turn(self) -> None:
        if self._gate == _CLOSED:
            return  # a forked child, which left with the fork
        fcntl.flock(self._floor, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        if self._workers:
            self._share_floor()


_turnstiles: dict[Path, Turnstile] = {}


def turnstile(path: Path) -> Turnstile:
    """This process's one turnstile on the lock files at *path*; two would wait for each other."""
    return _turnstiles.setdefault(path, Turnstile(path))


def _abandon_all() -> None:
    for each in _turnstiles.values():
        each.abandon()


# A forked child, such as a data loader's worker, would keep its killed parent's locks for as long as it lives.
os.register_at_fork(after_in_child=_abandon_all)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StorageError(
            f"the lane's lock file {path} cannot be opened ({error.strerror}); "
            f"give the lane a folder that this user can write, on this node's own disk"
        ) from error


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
