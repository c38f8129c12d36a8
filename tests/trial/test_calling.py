"""A person's functions: what they raise becomes a sentence with its place."""

from pathlib import Path

import pytest

from headtune.errors import SpaceError, TaskError
from headtune.trial.calling import calling


def test_what_comes_back_passes() -> None:
    assert calling("batches", lambda: [1, 2]) == [1, 2]


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), SystemExit(0), GeneratorExit()])
def test_what_is_raised_is_told_with_its_place(error: BaseException) -> None:
    def broken() -> None:
        raise error

    line = broken.__code__.co_firstlineno + 1
    with pytest.raises(TaskError) as caught:
        calling("loss", broken)
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    assert str(caught.value) == f"task.loss raised {said} ({Path(__file__)}, line {line}, in broken)"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SpaceError("its own words")])
def test_ctrl_c_and_headtunes_own_errors_pass(error: BaseException) -> None:
    def broken() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        calling("loss", broken)
    assert caught.value is error
