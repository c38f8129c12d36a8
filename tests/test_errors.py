import inspect
import pickle

import pytest
import torch

from headtune import errors
from headtune.errors import (
    HeadtuneError,
    Infeasible,
    InputError,
    MeasurementError,
    PlanError,
    StopTrial,
    TrialError,
    in_words,
    masked,
    out_of_memory,
    place_of,
    printable,
    traced,
)

ROOTS_OF = {"HeadtuneError": "Exception", "StopTrial": "BaseException"}
ROOTS = tuple(ROOTS_OF)


def drawn_tree() -> dict[str, str]:
    """Each class in the module's drawing with the class that it hangs from."""
    parents: list[str] = []
    tree = {}
    for line in (errors.__doc__ or "").splitlines():
        drawing, _, rest = line.rpartition("─ ")
        name = rest.split()[0] if rest else ""
        if line.startswith(ROOTS):
            name = line.split()[0]
            parents = [name]
            tree[name] = ROOTS_OF[name]
        elif drawing:
            depth = line.index(name) // 4
            parents[depth:] = [name]
            tree[name] = parents[depth - 1]
    return tree


def test_the_drawing_is_the_tree() -> None:
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    real = {name: kind.__base__.__name__ for name, kind in classes.items() if kind.__module__ == errors.__name__}
    assert drawn_tree() == real


@pytest.mark.parametrize(
    ("kind", "exit_code"), [(HeadtuneError, 1), (InputError, 2), (PlanError, 2), (Infeasible, 3), (TrialError, 1)]
)
def test_every_error_knows_its_exit_code(kind: type[HeadtuneError], exit_code: int) -> None:
    assert kind("it failed").exit_code == exit_code


def test_an_error_without_a_problem_cannot_be_made() -> None:
    with pytest.raises(ValueError, match=r"^TrialError needs at least one problem$"):
        TrialError(*[])


def test_one_problem_is_the_message() -> None:
    assert str(PlanError("a: 7 heads do not divide the width 64")) == "a: 7 heads do not divide the width 64"


def test_several_problems_are_a_list() -> None:
    error = PlanError("a: one", "b: two")
    assert error.problems == ("a: one", "b: two")
    assert str(error) == "2 problems:\n  - a: one\n  - b: two"


def test_an_error_crosses_processes_with_its_problems() -> None:
    error = pickle.loads(pickle.dumps(PlanError("a: one", "b: two")))
    assert type(error) is PlanError
    assert error.problems == ("a: one", "b: two")


def test_stop_trial_passes_a_handler_of_exceptions() -> None:
    assert issubclass(StopTrial, BaseException)
    assert not issubclass(StopTrial, Exception)


class Unreadable(Exception):
    """Its message cannot be had."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__()
        self._raised = raised

    def __str__(self) -> str:
        raise self._raised


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no room"), "ValueError: no room"),
        (KeyError("x"), "KeyError: 'x'"),
        (GeneratorExit(), "GeneratorExit"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("first\n\tsecond\r\n  third"), "ValueError: first second third"),
        (ValueError("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07"), "ValueError: red and \\x1b]0;title\\x07"),
        (ValueError("half a pair \ud800, turned \u202e"), "ValueError: half a pair \\ud800, turned \\u202e"),
        (ValueError("größer ≤ 日本"), "ValueError: größer ≤ 日本"),
        (Unreadable(ValueError("no")), "Unreadable: (its message cannot be read: ValueError)"),
        (Unreadable(SystemExit(3)), "Unreadable: (its message cannot be read: SystemExit)"),
    ],
)
def test_any_error_is_one_line_that_can_be_printed_and_written(error: BaseException, words: str) -> None:
    assert in_words(error) == words
    assert words.isprintable()
    words.encode("utf-8")


def test_a_very_long_message_is_cut() -> None:
    assert in_words(ValueError("x" * 50_000)) == f"ValueError: {'x' * 1000}…"


def test_ctrl_c_is_not_swallowed_by_wording_an_error() -> None:
    with pytest.raises(KeyboardInterrupt):
        in_words(Unreadable(KeyboardInterrupt()))


def test_problems_can_be_printed_whatever_they_quote() -> None:
    error = InputError("a file \udce9.py", "\x1b[31mred\x1b[0m\nsecond line")
    assert error.problems == ("a file \\udce9.py", "red\nsecond line")
    assert printable(str(error)) == str(error)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("storage: postgresql://u:secret@h/db is gone", "storage: postgresql://u:***@h/db is gone"),
        ("--set storge='postgresql://u:s@cr:et@h/db': unknown", "--set storge='postgresql://u:***@h/db': unknown"),
        ("mysql://:secret@h and redis://u:secret@h", "mysql://:***@h and redis://u:***@h"),
        ("postgresql://h/db?user=u&password=secret&x=1", "postgresql://h/db?user=u&password=***&x=1"),
        ("postgresql://h/db?sslpassword=secret'", "postgresql://h/db?sslpassword=***'"),
        ("write postgresql://user@host/name", "write postgresql://user@host/name"),
        ("sqlite:////a:b/c@d.db and http://h:80/x", "sqlite:////a:b/c@d.db and http://h:80/x"),
    ],
)
def test_no_problem_shows_a_password(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert HeadtuneError(text).problems == (shown,)


def test_what_an_allocator_says_is_said_shortly() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**13)
    assert in_words(caught.value) == "RuntimeError: can't allocate memory: 40,000.0 GB asked at once"


class Nameless(type):
    """The type of a class that does not bear to be named."""

    def __getattribute__(cls, name: str) -> object:
        if name in ("__name__", "__qualname__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Hostile(Exception, metaclass=Nameless):
    """Raises at whatever it is asked."""

    @property
    def __class__(self) -> type:
        raise KeyError("no class")

    @property
    def __traceback__(self) -> None:
        raise KeyError("no traceback")


def hostile() -> BaseException:
    try:
        raise Hostile("boom")
    except Exception as error:
        return error


def test_a_hostile_error_is_told_with_its_place() -> None:
    error = hostile()
    assert in_words(error) == "Hostile: boom"
    line = hostile.__code__.co_firstlineno + 2
    assert place_of(error) == f"{__file__}, line {line}, in hostile"
    assert traced(error) == f'  File "{__file__}", line {line}, in hostile\n    raise Hostile("boom")\nHostile: boom'


def test_a_traceback_shows_causes_also_in_a_ring() -> None:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    assert traced(first).count("ValueError: first") == 1
    assert traced(first).startswith("KeyError: 'second'")


class LoudText(str):
    """A message that cannot be measured."""

    def __len__(self) -> int:
        raise RuntimeError


class LoudError(Exception):
    def __str__(self) -> str:
        return LoudText("loud")


def test_a_message_of_a_class_of_its_own_is_plain_text() -> None:
    assert in_words(LoudError()) == "LoudError: loud"


def _caused(error: HeadtuneError, cause: BaseException) -> HeadtuneError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: x"), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (_caused(MeasurementError("the model failed"), MemoryError()), True),
        (_caused(MeasurementError("the model failed"), ValueError("can't allocate memory")), False),
        (ValueError("can't allocate memory"), False),
        (MeasurementError("out of memory, it says"), False),
    ],
)
def test_memory_that_ran_out_is_told_by_class_or_words(error: BaseException, is_memory: bool) -> None:
    assert out_of_memory(error) is is_memory
