"""Folders that are written whole or not at all."""

import glob
import os
import shutil
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from headtune.errors import StorageError


@contextmanager
def written_whole(folder: Path, last: str, stale: Collection[str] = ()) -> Iterator[Path]:
    """A new folder to write into, which takes the place of *folder* at the end; nothing is left of it after an error.

    Where *folder* is there already, its other files stay. A crash while files are moved leaves it without the file
    *last*, so that nobody takes it for a whole one; what a killed process left beside it goes with the next save.

    Args:
        folder: where the files go.
        last: the file without which the folder holds nothing.
        stale: names of files from an earlier model, which go.

    Raises:
        StorageError: the folder cannot be written, or a folder stands where a file must go (every one).
    """
    whole = folder.absolute()
    unfinished = _unfinished(whole, str(os.getpid()))
    try:
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(whole)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        yield unfinished
        _open_up(unfinished)
        _move(unfinished, folder, last, stale)
    except (OSError, SafetensorError) as error:  # safetensors has its own error for a full disk
        raise StorageError(
            f"{folder}: the model cannot be written ({error}); free space or choose another output"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unfinished(folder: Path, process: str) -> Path:
    """Where a process of this machine writes what will be *folder*."""
    return folder.parent / f".{folder.name}.{socket.gethostname()}.{process}.tmp"


def _remove_abandoned(folder: Path) -> None:
    pattern = _unfinished(folder.with_name(glob.escape(folder.name)), "*").name
    for file in folder.parent.glob(pattern):
        process = file.name.split(".")[-2]
        if process.isdecimal() and not _runs(int(process)):
            shutil.rmtree(file, ignore_errors=True)


def _runs(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere there is no signal that only asks
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _open_up(folder: Path) -> None:
    """Let whoever may read the folder read its files, which safetensors makes for their owner alone."""
    wanted = folder.stat().st_mode & 0o666
    for file in folder.iterdir():
        if file.stat().st_mode & 0o777 != wanted:
            file.chmod(wanted)


def _move(source: Path, folder: Path, last: str, stale: Collection[str]) -> None:
    if not folder.exists():
        source.rename(folder)
        return
    names = sorted((file.name for file in source.iterdir()), key=lambda name: name == last)
    taken = [folder / name for name in names if (folder / name).is_dir()]
    if taken:
        raise StorageError(
            *(f"{path} is a folder, and the model has a file of that name; move it away" for path in taken)
        )
    (folder / last).unlink(missing_ok=True)
    for name in stale:
        if not (folder / name).is_dir():
            (folder / name).unlink(missing_ok=True)
    for name in names:
        (source / name).replace(folder / name)
