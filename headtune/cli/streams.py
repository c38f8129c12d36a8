"""The standard streams of a process, so that writing to them never ends it: what was lost is told at the end."""

import errno
import io
import os
import select
import signal
import sys
from typing import Any, TextIO

BROKEN_PIPE = 128 + signal.SIGPIPE
"""The exit code where the reader of the results left before their end, as shells have it."""


class Sink(io.FileIO):
    """A stream's end. When its reader has left or its disk is full, what comes is dropped.

    Attributes:
        lost: why something was dropped; ``None`` while all is written.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self.lost: OSError | None = None

    def write(self, content: Any, /) -> int:  # noqa: ANN401
        """Write *content*, or drop it."""
        if self.lost is None:
            try:
                while (written := super().write(content)) is None:  # another process made the stream non-blocking
                    select.select([], [self], [])
                return written
            except OSError as error:
                self.lost = error
        return len(content)


def open_streams() -> Sink | None:
    """Make the standard streams safe to write to, and able to take any character.

    A stream that is closed gets its number back, so that no database is opened under it.

    Returns:
        The end of standard output; ``None`` where someone else, such as a test, has replaced it.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):  # standard output stays unwritable
        _occupy(number, mode)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(Sink(2), sys.stderr, line_buffering=True)
    if sys.stdout is not sys.__stdout__:
        return None
    sink = Sink(1)
    sys.stdout = _text(sink, sys.stdout, line_buffering=sink.isatty())
    return sink


def lost_results(sink: Sink) -> tuple[int, str]:
    """The exit code for results that could not be written, and a sentence where the person should hear of it."""
    sys.stdout.flush()
    if sink.lost is None:
        return 0, ""
    if sink.lost.errno == errno.EPIPE:
        return BROKEN_PIPE, ""
    reason = "it is closed" if sink.lost.errno == errno.EBADF else sink.lost.strerror
    return 2, f"the results could not be written to standard output ({reason}): redirect it elsewhere"


def _occupy(number: int, mode: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        os.set_inheritable(os.open(os.devnull, mode), True)


def _text(sink: Sink, before: TextIO | None, *, line_buffering: bool) -> TextIO:
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(sink), encoding, errors="backslashreplace", line_buffering=line_buffering)
