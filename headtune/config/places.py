"""Where a study keeps what it makes."""

import os
from pathlib import Path

from headtune.config.schema import StudyFile


def output_of(file: StudyFile, folder: Path) -> Path:
    """The folder of a study's files, absolute: ``runs/<name>`` in *folder* where the study names none."""
    return Path(os.path.realpath(folder / (file.output or f"runs/{file.name}")))


def storage_of(file: StudyFile, folder: Path) -> str:
    """The URL of a study's storage, an SQLite file absolute: ``study.db`` in the output where the study names none."""
    if file.storage is None:
        return f"sqlite:///{output_of(file, folder) / 'study.db'}"
    scheme, mark, path = file.storage.partition(":///")
    return f"{scheme}:///{os.path.realpath(folder / path)}" if mark and scheme.startswith("sqlite") else file.storage
