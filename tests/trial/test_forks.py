"""A process that a person's code forks, and how it ends."""

import os
from collections.abc import Callable

import pytest

from headtune.trial.forks import end_fork, one_process


def exit_code(work: Callable[[], None]) -> int:
    """The exit code of a process that is forked within ``one_process`` and leaves it by *work*."""
    child = -1
    try:
        with one_process():
            child = os.fork()
            if child == 0:
                work()
    finally:
        if child == 0:
            os._exit(9)  # came back
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def leave(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda: None, 0),
        (lambda: leave(ValueError("child")), 1),
        (lambda: leave(KeyboardInterrupt()), 1),
        (lambda: leave(SystemExit()), 0),
        (lambda: leave(SystemExit(5)), 5),
        (lambda: leave(SystemExit("words")), 1),
    ],
)
def test_a_fork_ends_where_it_comes_back(
    work: Callable[[], None], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(work) == code
    assert capfd.readouterr() == ("", "")


def test_the_process_itself_goes_on() -> None:
    end_fork(os.getpid())
    with one_process():
        pass
    with pytest.raises(ValueError, match="mine"), one_process():
        leave(ValueError("mine"))


def test_a_function_can_be_guarded_whole() -> None:
    @one_process()
    def forked() -> int:
        return os.fork()

    pids = [forked() for _ in range(2)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0]
