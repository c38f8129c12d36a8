"""Writing a file whole or not at all."""

import os
from pathlib import Path

from headtune.errors import StorageError


def open_folder(folder: Path) -> Path:
    """The folder, made where it is missing.

    Raises:
        StorageError: it cannot be made, or something else bears its name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(_sentence(folder, error)) from error
    return folder


def write_whole(path: Path, content: bytes) -> Path:
    """Write *content* beside *path* and rename it into place, so that a reader sees the old file or the new one.

    Raises:
        StorageError: the folder cannot be written; whatever stood at *path* is untouched.
    """
    try:
        _replace(path, content)
    except OSError as error:
        raise StorageError(_sentence(path, error)) from error
    return path


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sentence(path: Path, error: OSError) -> str:
    return (
        f"{path}: the report cannot be written there ({error.strerror or error}); "
        "name a folder that you may write to with `output`"
    )
