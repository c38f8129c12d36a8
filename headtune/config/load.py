"""From a study file to what it says, or to every problem in it at once, each with its line."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from headtune.config.document import Document
from headtune.config.overrides import Override, overridden, parse_all
from headtune.config.places import storage_of
from headtune.config.problems import explain
from headtune.config.schema import StudyFile
from headtune.config.section import Problem
from headtune.errors import SpecError, StorageError

if TYPE_CHECKING:
    from headtune.study.spec import StudySpec

_MOST_BYTES = 100_000


def load_study(path: Path, overrides: Sequence[str] = ()) -> "StudySpec":
    """The study in the file *path*.

    Args:
        path: a study file; every path in it starts from its folder.
        overrides: ``key=value`` texts that replace keys of the file.

    Raises:
        SpecError: lists every problem of the file and the overrides.
    """
    file = load_file(path, overrides)
    from headtune.config.build import build_study  # loads torch, which a wrong file need not wait for

    return build_study(file, _folder(path))


def load_kept_study(path: Path, overrides: Sequence[str] = ()) -> "StudySpec":
    """The study in the file *path*, of which something must be kept already; see :func:`load_study`.

    Raises:
        StorageError: its storage is a file that is not there, said before anything heavy is loaded.
    """
    file = load_file(path, overrides)
    storage = storage_of(file, _folder(path))
    kept = Path(storage.partition(":///")[2].partition("?")[0])
    if storage.startswith("sqlite") and not os.path.lexists(kept):
        raise StorageError(f"storage: there is no {kept}; run the search first, or name the storage that it wrote")
    return load_study(path, overrides)


def load_file(path: Path, overrides: Sequence[str] = ()) -> StudyFile:
    """What the file *path* says, checked against the schema; see :func:`load_study`."""
    settings, unread = parse_all(overrides)
    document = Document.parse(_read(path), str(path))
    if not isinstance(document.value, dict):
        raise SpecError(f"{path}:1: must hold keys such as `version: 1`; `headtune init` writes a study to start from")
    content, misfits = overridden(document.value, settings)
    problems: list[Problem] = []
    try:
        file = StudyFile.model_validate(content, context=_folder(path))
    except ValidationError as error:
        problems = [problem for each in error.errors() for problem in explain(each, StudyFile)]
    if problems or unread or misfits:
        raise SpecError(*_placed(problems, document, settings), *unread, *misfits)
    return file


def _folder(path: Path) -> Path:
    """Where the paths in the file at *path* start."""
    return Path(os.path.realpath(path)).parent


def _placed(problems: Iterable[Problem], document: Document, settings: Sequence[Override]) -> list[str]:
    """The problems in the order of their lines, with their places; those of overrides last."""
    lines: list[tuple[int, str]] = []
    typed: list[str] = []
    for keys, sentence in problems:
        message = ": ".join(filter(None, (".".join(map(str, keys)), sentence)))
        source = next((setting for setting in reversed(settings) if setting.covers(keys)), None)
        if source is not None:
            typed.append(f"{source.place}: {message}")
        else:
            line = document.line(keys)
            lines.append((line, f"{document.name}:{line}: {message}"))
    return [text for _, text in sorted(lines, key=lambda found: found[0])] + typed


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise SpecError(f"{path}: is a folder; name the study file in it, such as {path / 'study.yaml'}")
        if path.exists() and not path.is_file():
            raise SpecError(f"{path}: is no plain file; name a study file")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise SpecError(f"{path}: there is no such file; `headtune init` writes a study to start from") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from None
    if len(content) > _MOST_BYTES:
        raise SpecError(f"{path}: has more than {_MOST_BYTES:,} bytes, which no study has; name a study file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{path}:{line}: is not UTF-8 text; save the file as UTF-8") from None
