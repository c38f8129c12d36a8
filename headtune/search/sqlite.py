"""SQLite files: checked before they are opened, quick while a driver writes, one plain file after."""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from headtune.errors import StorageError
from headtune.search.urls import shown

_LOCK_SECONDS = 60
_LOCAL = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_MOUNTS = Path("/proc/mounts")
_MARK = "version_info"
_TABLES = {
    *("alembic_version", "studies", "study_directions", "study_system_attributes", "study_user_attributes", "trials"),
    *("trial_heartbeats", "trial_intermediate_values", "trial_params", "trial_system_attributes"),
    *("trial_user_attributes", "trial_values", _MARK),
}
_MOST_NAMED = 3


class Connection(sqlite3.Connection):
    """A connection that leaves it to the write-ahead log to be on disk at checkpoints, not at each commit.

    A killed process loses nothing; a power cut may cost the last seconds, never the file. Without a write-ahead log
    every commit still waits for the disk.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.execute("PRAGMA synchronous=NORMAL")


CONNECT_ARGS: dict[str, Any] = {"timeout": _LOCK_SECONDS, "factory": Connection}
"""How SQLite files are connected to: patient with other readers, and quick."""


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL, absolute; ``None`` for other databases.

    Raises:
        StorageError: the URL names an SQLite database without a file.
    """
    scheme, _, rest = url.partition("://")
    if scheme.partition("+")[0] != "sqlite":
        return None
    name = rest.removeprefix("/").partition("?")[0]
    if not rest.startswith("/") or name in ("", ":memory:"):
        raise StorageError(
            f"storage: {shown(url)} keeps nothing when its process ends; write sqlite:///folder/study.db"
        )
    return Path(name).absolute()


def check_file(path: Path, *, create: bool) -> None:
    """Make sure that *path* is a file of studies; with *create*, that it is one or can become one, and make its folder.

    Raises:
        StorageError: it is not.
    """
    try:
        there, is_folder = path.exists(), path.is_dir()
    except OSError as error:
        raise StorageError(f"storage: {path} cannot be opened ({error.strerror}); choose another file") from None
    if is_folder:
        raise StorageError(f"storage: {path} is a folder; name a file in it, such as sqlite:///{path}/study.db")
    if not there:
        _check_folder(path, create=create)
        return
    if not os.access(path, os.R_OK):
        raise StorageError(f"storage: {path} cannot be read; make it readable, or choose another file")
    _check_tables(path, create=create)
    if create and not os.access(path, os.W_OK):
        raise StorageError(f"storage: {path} cannot be written; make it writable, or choose another file")


def keep_log(path: Path) -> None:
    """Give the file a write-ahead log, with which readers and the writer do not wait for each other.

    Only on a local disk: over a network the log would be torn.
    """
    if is_local(path, _mounts()):
        _set_journal(str(path), "WAL")


def drop_log(path: Path) -> None:
    """Make the database one plain file again, which can be copied, unless someone still reads it."""
    _set_journal(f"{path.as_uri()}?mode=rw", "DELETE")  # never made where it is gone


def identity(path: Path) -> tuple[int, int] | None:
    """Which file lies at *path*: its device and inode; ``None`` where there is none."""
    try:
        status = path.stat()  # opened and closed, it would drop the locks of this process's connections
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_local(path: Path, mounts: Iterable[tuple[str, str]]) -> bool:
    """Whether *path* lies on a disk of this machine, by (folder, file system) of what is mounted."""
    resolved = path.resolve()
    holding = [(len(Path(folder).parts), kind) for folder, kind in mounts if resolved.is_relative_to(folder)]
    return bool(holding) and max(holding)[1] in _LOCAL


def _mounts() -> list[tuple[str, str]]:
    if not _MOUNTS.exists():
        return []
    fields = [line.split() for line in _MOUNTS.read_text(errors="replace").splitlines()]
    return [(field[1].encode().decode("unicode_escape"), field[2]) for field in fields]


def _set_journal(database: str, mode: str) -> None:
    # Where someone holds the file the mode stays as it is, which is slower or leaves a second file, and nothing worse;
    # what else is wrong with the file is found, and said, when it is opened.
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=1, uri=True)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")


def _check_tables(path: Path, *, create: bool) -> None:
    try:
        # Not path.open: closing a plain file would drop the locks of every SQLite connection that this process has.
        with closing(sqlite3.connect(path, timeout=1)) as connection:
            rows = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
            tables = {str(name) for (name,) in rows}
    except sqlite3.OperationalError:
        return  # busy, or another trouble that is found, and said, when it is opened
    except sqlite3.DatabaseError:
        raise StorageError(f"storage: {path} is no SQLite database, or a damaged one; choose another file") from None
    if _MARK in tables:
        return
    if not tables <= _TABLES:
        names = ", ".join(sorted(tables)[:_MOST_NAMED])
        raise StorageError(f"storage: {path} is the database of another program (tables {names}); choose another file")
    if not create:
        raise StorageError(f"storage: {path} holds no study; run the search first, or name the storage that it wrote")


def _check_folder(path: Path, *, create: bool) -> None:
    if not create:
        raise StorageError(f"storage: there is no {path}; run the search first, or name the storage that it wrote")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"storage: the folder {path.parent} cannot be made ({error.strerror}); choose another folder"
        ) from None
    if not os.access(path.parent, os.W_OK):
        raise StorageError(f"storage: the folder {path.parent} cannot be written; choose another folder")
