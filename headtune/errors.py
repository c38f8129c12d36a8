"""Every way headtune can fail, in one tree.

HeadtuneError
├── InputError              what came in is wrong                           exit 2
│   ├── SpecError           a study file: every problem, each with its line
│   ├── TaskError           a task that cannot be imported or breaks its contract
│   │   └── MetricError     what a task reports is no metric, or not what the study asks for
│   ├── PlanError           head counts that are not legal for a site
│   ├── SpaceError          a search space that is empty or contradicts itself
│   ├── SurgeryError        a model that cannot be seen or changed as asked
│   ├── StorageError        a storage or folder that cannot be opened or written
│   ├── StudyBusyError      another driver holds the study
│   ├── StudyChangedError   the study no longer means what its storage holds
│   └── MissingExtraError   an optional package that is not installed
├── Infeasible              nothing, or not this plan, meets the constraints exit 3
└── FailedError             work that was legal went wrong                   exit 1
    ├── MeasurementError    a latency or a memory that could not be measured
    │   └── OtherDeviceError  a latency timed on another device than what it is compared with
    └── TrialError          a trial that crashed where no other could go on

StopTrial                   a BaseException: ends one trial, passes `except Exception`
└── Diverged                the same, because a reported value is not finite
"""

import re
import traceback
from types import TracebackType
from typing import ClassVar

_LONGEST = 1000
_ALLOCATION = re.compile(r"\[enforce fail .*can't allocate memory: you tried to allocate (\d+) bytes.*")
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_PASSWORD = re.compile(r"(?<=://)([^\s:/?@]*):\S*@|([?&][^\s=&]*pass[^\s=&]*=)[^\s&'\"]*", re.IGNORECASE)


class HeadtuneError(Exception):
    """Base of every error that headtune raises on purpose.

    Attributes:
        problems: each problem as one sentence, one at least: where, what came, what to do instead.
        exit_code: what the command line exits with when this error ends it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *problems: str) -> None:
        if not problems:
            raise ValueError(f"{type(self).__name__} needs at least one problem")
        super().__init__(*problems)
        self.problems = tuple(printable(masked(problem)) for problem in problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n".join([f"{len(self.problems)} problems:", *(f"  - {problem}" for problem in self.problems)])


class InputError(HeadtuneError):
    """What the person gave is wrong."""

    exit_code = 2


class SpecError(InputError):
    """A study file is wrong."""


class TaskError(InputError):
    """A task cannot be imported, or it breaks its contract."""


class MetricError(TaskError):
    """What a task reports is no metric, or not what the study asks for."""


class PlanError(InputError):
    """Head counts are not legal for a site."""


class SpaceError(InputError):
    """A search space is empty or contradicts itself."""


class SurgeryError(InputError):
    """A model cannot be seen or changed as asked."""


class StorageError(InputError):
    """A storage or a folder cannot be opened, read or written."""


class StudyBusyError(InputError):
    """Another driver holds the study."""


class StudyChangedError(InputError):
    """The study no longer means what its storage holds."""


class MissingExtraError(InputError):
    """An optional package is not installed; the message says which ``pip install`` to run."""


class Infeasible(HeadtuneError):
    """Nothing, or not this plan, meets the constraints."""

    exit_code = 3


class FailedError(HeadtuneError):
    """Work that was legal went wrong."""

    exit_code = 1


class MeasurementError(FailedError):
    """A latency or a memory could not be measured."""


class OtherDeviceError(MeasurementError):
    """A latency was timed on another device than what it is compared with."""


class TrialError(FailedError):
    """A trial crashed where no other could go on."""


class StopTrial(BaseException):
    """Ends one trial from inside ``run.report``.

    A ``BaseException``, so that a training function's ``except Exception`` lets it pass.
    """


class Diverged(StopTrial):
    """Ends a trial that reported a value that is not finite; the message says which value, and when."""


def in_words(error: BaseException) -> str:
    """An error's type and message on one line of bounded length, whatever its class does and its message holds."""
    try:
        said = str.__str__(str(error))  # a plain one, even where it comes as a subclass
    except KeyboardInterrupt:
        raise
    except BaseException as failed:
        said = f"(its message cannot be read: {_kind(failed)})"
    if len(said) > _LONGEST:
        said = f"{said[:_LONGEST]}…"
    said = _ALLOCATION.sub(_size, printable(" ".join(said.split())))
    return f"{_kind(error)}: {said}" if said else _kind(error)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of a GPU; of an error of headtune's own, its cause tells."""
    seen: set[int] = set()
    while issubclass(type(error), HeadtuneError) and error.__cause__ is not None and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__
    kinds = type(error).__mro__
    if MemoryError in kinds or any(_name(kind) == "OutOfMemoryError" for kind in kinds):  # torch's, for one
        return True
    # PyTorch's allocator of the CPU has no class of its own: it raises a RuntimeError that says so.
    return RuntimeError in kinds and "can't allocate memory" in in_words(error)


def place_of(error: BaseException) -> str:
    """Where an error was raised: ``train.py, line 7, in train``."""
    frame, line = [*traceback.walk_tb(_traceback(error))][-1]
    return f"{frame.f_code.co_filename}, line {line}, in {frame.f_code.co_name}"


def traced(error: BaseException) -> str:
    """An error's traceback with its causes; where its class does not bear that, its own lines alone."""
    try:
        return "".join(traceback.format_exception(error))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "".join([*traceback.format_tb(_traceback(error)), in_words(error)])


# What a class may override with code that raises is asked of the built-in types.


def _kind(error: BaseException) -> str:
    return _name(type(error))


def _name(kind: type) -> str:
    """Whatever its metaclass makes of ``__name__``."""
    name: str = vars(type)["__name__"].__get__(kind)
    return name


def _traceback(error: BaseException) -> TracebackType | None:
    found: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    return found


def _size(asked: re.Match[str]) -> str:
    return f"can't allocate memory: {int(asked[1]) / 1e9:,.1f} GB asked at once"


def printable(text: str) -> str:
    """*text* without colours, its control characters and lone surrogates written as escapes; lines stay lines."""
    plain = _TERMINAL_SEQUENCE.sub("", text)
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in plain)


def masked(text: str) -> str:
    """*text* without the passwords of the URLs in it."""
    return _PASSWORD.sub(lambda found: f"{found[2]}***" if found[2] else f"{found[1]}:***@", text)
