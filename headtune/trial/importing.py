"""Importing a person's own code, with errors in plain words."""

import importlib
import importlib.util
import sys
import traceback
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from headtune.errors import HeadtuneError, TaskError, in_words


def import_file(path: Path, where: str) -> ModuleType:
    """The module of the file at *path*, imported once per process under a name of its own; the running script as it is.

    Args:
        path: absolute.
        where: what the messages begin with.

    Raises:
        TaskError: there is no such file, or it raises.
    """
    if not path.is_file():
        raise TaskError(f"{where}: there is no file {path}{_neighbour(path)}")
    main = sys.modules["__main__"]
    if file_of(main) == path:
        return main
    name = f"headtune_task_{path.stem}_{sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    _search_first(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None  # a .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does, so that classes in the file can be pickled
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:
        del sys.modules[name]
        raise failure(f"{where}: importing it failed", error, path.parent) from error
    return module


def import_module(name: str, base: Path, where: str) -> ModuleType:
    """The module *name*, looked for in *base* first.

    Raises:
        TaskError: there is no such module, or it raises.
    """
    _search_first(base)
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise TaskError(
                f"{where}: there is no module {error.name} in {base} or among the installed packages; "
                "a file is named by its path, path/to/file.py:attr"
            ) from error
        raise failure(f"{where}: importing it failed", error, base) from error


def file_of(module: ModuleType) -> Path | None:
    """The file a module came from; ``None`` for a console or a built-in."""
    file: str | None = vars(module).get("__file__")
    return None if file is None else Path(file).resolve()


def failure(what: str, error: BaseException, folder: Path) -> TaskError:
    """An error of the person's code, with the line of theirs that was running.

    Args:
        what: what failed.
        folder: where their code lies; installed packages in it are not theirs.
    """
    if isinstance(error, SyntaxError):
        where = f" at {error.filename}, line {error.lineno}" if error.filename else ""  # a NUL in it has no place
        return TaskError(f"{what}{where}: {type(error).__name__}: {error.msg}")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _within(Path(frame.filename), folder)] or list(frames)
    line = f"{own[-1].filename}, line {own[-1].lineno} ({own[-1].line})"
    if isinstance(error, HeadtuneError):
        return TaskError(*(f"{what} at {line}: {problem}" for problem in error.problems))
    remedy = '; put what runs alone under if __name__ == "__main__":' if isinstance(error, SystemExit) else ""
    return TaskError(f"{what} at {line}: {in_words(error)}{remedy}")


def _within(file: Path, folder: Path) -> bool:
    return file.is_relative_to(folder) and "site-packages" not in file.relative_to(folder).parts


def _search_first(folder: Path) -> None:
    """Look for modules in *folder* first, as Python does for a script that lies there."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _neighbour(path: Path) -> str:
    """A hint at a file beside *path* that is named nearly so."""
    beside = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, n=1)
    return f"; did you mean {near[0]}?" if near else ""
