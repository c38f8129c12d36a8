"""Ray's own talk, kept out of the terminal: what it knows of a lost worker reaches a person as the trial's reason."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

_MARK = "(raylet"

_log = logging.getLogger(__name__)


@contextmanager
def quiet_ray() -> Iterator[None]:
    """While inside, Ray prints neither its errors nor the tracebacks of workers that died."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(_WithoutRaylet(sys.stdout)):
            yield
    finally:
        logger.setLevel(before)


class _WithoutRaylet(io.TextIOBase):
    """Standard output without the lines of Ray's node manager, which Ray prints there whatever it is told."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner
        self._dropped = False

    def write(self, text: str) -> int:
        if _MARK in text:
            _log.info("%s", text)
            self._dropped = True
        elif not (self._dropped and text == "\n"):
            self._dropped = False
            self._inner.write(text)
        else:
            self._dropped = False
        return len(text)

    def flush(self) -> None:
        self._inner.flush()

    def isatty(self) -> bool:
        return self._inner.isatty()

    def fileno(self) -> int:
        return self._inner.fileno()
