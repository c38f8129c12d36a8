"""``headtune init``."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from headtune.cli.guard import guard
from headtune.cli.options import Verbose
from headtune.cli.terminal import say, show
from headtune.errors import StorageError

STARTER = ("study.yaml", "train.py")
"""The files of a new study."""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; made where it is missing.")] = Path(),
    verbose: Verbose = False,
) -> None:
    """Write a study.yaml and a train.py that run as they are, to be made your own. Overwrites nothing.

    Example: headtune init my-study
    """
    with guard(verbose):
        for path in write_starter(folder):
            show(f"wrote {path}")
        say(f"next: headtune check {folder / 'study.yaml'}, then headtune search {folder / 'study.yaml'}")


def write_starter(folder: Path) -> tuple[Path, ...]:
    """Write the files of a new study into *folder*.

    Raises:
        StorageError: one of them is there already, or the folder cannot be written; nothing is written then.
    """
    targets = {name: folder / name for name in STARTER}
    present = [str(path) for path in targets.values() if path.exists()]
    if present:
        raise StorageError(*(f"{path}: is there already; name another folder, or move it away" for path in present))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in targets.items():
            text = files("headtune.cli.starter").joinpath(f"{name}.txt").read_text(encoding="utf-8")
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror}); name another folder") from error
    return tuple(targets.values())
