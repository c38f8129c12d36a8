"""Where a task comes from: a name that every process imports for itself, or an object given in Python."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, ModuleType
from typing import Protocol, TypeAlias

from torch import nn

from headtune.errors import HeadtuneError, TaskError
from headtune.trial.importing import failure, file_of, import_file, import_module
from headtune.trial.task import Task

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""What a study file can hold as an argument."""


class TaskSource(Protocol):
    """Gives the task in any process; pickles."""

    @property
    def name(self) -> str:
        """What people call the task."""
        ...

    def load(self) -> Task:
        """The task.

        Raises:
            TaskError: there is none, or it breaks its contract.
        """
        ...


@dataclass(frozen=True, slots=True)
class TaskObject:
    """A task given in Python."""

    task: Task

    @property
    def name(self) -> str:
        """What people call the task."""
        return "given in Python"

    def load(self) -> Task:
        """The task.

        Raises:
            TaskError: it breaks its contract.
        """
        return _checked(self.task, f"task {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReference:
    """A task by the name of its home, which each process imports once.

    Attributes:
        target: ``path/to/file.py:attr`` or ``package.module:attr``; ``attr`` is a Task or a function that returns one.
        base: folder that a relative path starts from, and where modules are looked for first; made absolute.
        args: keyword arguments of that function.
    """

    target: str
    base: Path
    args: Mapping[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A worker may stand in another folder.
        object.__setattr__(self, "base", self.base.resolve())

    def __hash__(self) -> int:
        return hash((self.target, self.base, frozenset(self.args)))

    @property
    def name(self) -> str:
        """What people call the task."""
        return self.target

    def load(self) -> Task:
        """The task; the same object each time in one process.

        Raises:
            TaskError: it cannot be imported, is not there, raises, is no Task, or breaks its contract.
        """
        return _load(self)


@cache
def _load(reference: TaskReference) -> Task:
    where = f"task {reference.target}"
    home, _, attr = reference.target.rpartition(":")
    if not home or not attr.isidentifier():
        raise TaskError(f"{where}: names no attribute; write path/to/file.py:attr or package.module:attr")
    if not home.endswith(".py") and (home.startswith(".") or {"/", ":"} & set(home)):
        raise TaskError(
            f"{where}: {home} is neither a file nor a module; write path/to/file.py:attr or package.module:attr"
        )
    base = reference.base
    path = (base / home).resolve()
    module = import_file(path, where) if home.endswith(".py") else import_module(home, base, where)
    found = _attribute(module, attr, where)
    if isinstance(found, Task) and reference.args:
        raise TaskError(f"{where}: is a Task, which takes no task_args; got {', '.join(reference.args)}")
    if not isinstance(found, Task):
        if not callable(found) or isinstance(found, nn.Module | type | BuiltinFunctionType):
            raise TaskError(f"{where}: is {_kind(found)}; it must be a headtune.Task or a function that returns one")
        found = _call(found, reference.args, where, file_of(module) or base)
    return _checked(found, where)


def _attribute(module: ModuleType, attr: str, where: str) -> object:
    names = vars(module)
    if attr in names:
        return names[attr]
    candidates = [name for name, value in names.items() if _may_give_a_task(value, module)]
    near = get_close_matches(attr, candidates, n=3) or candidates[:10]
    hint = f"did you mean {' or '.join(near)}?" if near else "it defines no Task and no function"
    raise TaskError(f"{where}: {file_of(module) or module.__name__} defines no {attr}; {hint}")


def _may_give_a_task(value: object, module: ModuleType) -> bool:
    return isinstance(value, Task) or (inspect.isfunction(value) and value.__module__ == module.__name__)


def _call(function: Callable[..., object], args: Mapping[str, JSON], where: str, file: Path) -> object:
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    takes = ", ".join(str(p) for p in parameters) or "nothing"
    names = [p.name for p in named]
    problems = [] if open_ended else [_unknown(name, names) for name in args if name not in names]
    problems += [f"task_args lacks {p.name}" for p in named if p.default is p.empty and p.name not in args]
    if problems:
        raise TaskError(*(f"{where}: {problem}; the function takes {takes}" for problem in problems))
    try:
        return function(**args)
    except (HeadtuneError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise failure(f"{where}: the function raised", error, file.parent) from error


def _unknown(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"task_args has {name}, which is unknown" + (f" (did you mean {near[0]}?)" if near else "")


def _checked(task: object, where: str) -> Task:
    """The task, if it keeps its contract; else every breach is named."""
    if not isinstance(task, Task):
        raise TaskError(f"{where}: returned {_kind(task)}; it must return a headtune.Task")
    problems = [
        f"{where}: {name} must be a function, got {_kind(value)}; {_SHAPES[name]}"
        for name, value in _functions(task).items()
        if value is not None and (not callable(value) or isinstance(value, nn.Module))
    ]
    if task.train is None and task.evaluate is None:
        problems.append(
            f"{where}: has neither train nor evaluate; give {_SHAPES['train']}, "
            f"or {_SHAPES['evaluate']} to score kept weights as they are"
        )
    if problems:
        raise TaskError(*problems)
    return task


_SHAPES = {
    "model": "model=(**params) -> a new nn.Module",
    "inputs": "inputs=(batch_size, seq_len) -> tuple or dict of arguments of forward",
    "train": "train=(model, run) -> None",
    "evaluate": "evaluate=(model) -> {metric: value}",
    "test": "test=(model) -> {metric: value}",
    "batches": "batches=() -> iterable of batches",
    "loss": "loss=(model, batch) -> scalar tensor",
}


def _functions(task: Task) -> dict[str, object]:
    values = (task.model, task.inputs, task.train, task.evaluate, task.test, task.batches, task.loss)
    return dict(zip(_SHAPES, values, strict=True))


def _kind(value: object) -> str:
    return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"
