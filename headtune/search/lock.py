"""A lock that the kernel frees when its process ends, however it ends."""

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from weakref import WeakSet

from headtune.errors import StorageError
from headtune.search.sqlite import sqlite_path


class FileLock:
    """An exclusive lock on a file. The file stays; only the lock on it counts.

    A process forked while the lock is held lets go of its copy, so that the lock dies with the one that took it.
    """

    def __init__(self, path: Path) -> None:
        """Open *path*, without locking it yet.

        Raises:
            StorageError: the file cannot be made or opened.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(
                f"storage: the lock {path} cannot be opened ({error.strerror}); choose a folder that can be written"
            ) from None
        _OPEN.add(self)

    @property
    def identity(self) -> str:
        """The path, and which file it is: another container's file may have the same path."""
        status = os.fstat(self._file)
        return f"{self.path} ({status.st_dev}:{status.st_ino})"

    def take(self) -> bool:
        """Lock now, or say ``False``."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def read(self) -> str:
        """What the lock's holder wrote into it."""
        return os.pread(self._file, 4096, 0).decode(errors="replace")

    def write(self, text: str) -> None:
        """Say who holds the lock."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text.encode(), 0)

    def release(self) -> None:
        """Unlock and close; a second call does nothing."""
        if self._file >= 0:
            os.ftruncate(self._file, 0)
        self.close()

    def close(self) -> None:
        """Close this process's copy; the lock ends with the last copy."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def lock_path(url: str, study: str) -> Path:
    """Where the lock of a study lies: beside an SQLite file, else in a folder of this user on this machine."""
    path = sqlite_path(url)
    if path is not None:
        path = path.resolve()
        return path.with_name(f".{path.name}.{_digest(study)}.lock")
    folder = Path(tempfile.gettempdir()) / f"headtune-{os.getuid()}"
    return folder / f"{_digest(f'{url} {study}')}.lock"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _let_go() -> None:
    for lock in list(_OPEN):
        lock.close()


_OPEN: WeakSet[FileLock] = WeakSet()
os.register_at_fork(after_in_child=_let_go)
