"""Folders that are written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headtune.errors import StorageError


@contextmanager
def written_whole(folder: Path, last: str, stale: tuple[str, ...]) -> Iterator[Path]:
    """A new folder to write into, which takes the place of *folder* at the end; nothing is left of it after an error.

    Where *folder* is there already, its other files stay. A crash while files are moved leaves it without the file
    *last*, so that nobody takes it for a whole one.

    Args:
        folder: where the files go.
        last: the file without which the folder holds nothing.
        stale: patterns of files from an earlier model, which go.

    Raises:
        StorageError: the folder cannot be written.
    """
    unfinished = folder.absolute().parent / f".{folder.absolute().name}.{os.getpid()}.tmp"
    try:
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        yield unfinished
        _move(unfinished, folder, last, stale)
    except OSError as error:
        raise StorageError(
            f"{folder}: the model cannot be written ({error}); free space or choose another output"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _move(source: Path, folder: Path, last: str, stale: tuple[str, ...]) -> None:
    if not folder.exists():
        source.rename(folder)
        return
    (folder / last).unlink(missing_ok=True)
    for pattern in stale:
        for file in folder.glob(pattern):
            file.unlink()
    for file in sorted(source.iterdir(), key=lambda file: file.name == last):
        file.replace(folder / file.name)
