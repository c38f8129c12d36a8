"""Processes that a person's code forks: one that comes back from it would do headtune's work a second time."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_process() -> Iterator[None]:
    """Around a call of a person's code: a process that it forked ends where it comes back."""
    process = os.getpid()
    try:
        yield
    finally:
        end_fork(process)


def end_fork(process: int) -> None:
    """End this process, without a word, unless it is *process*; the exit code is that of what it raised."""
    if os.getpid() != process:
        error = sys.exc_info()[1]
        code = error.code if isinstance(error, SystemExit) else int(error is not None)
        os._exit(code if isinstance(code, int) else int(code is not None))
