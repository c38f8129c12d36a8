"""The log of a study: one file in its output folder. Importing changes nothing."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOG_NAME = "headtune.log"
"""The file's name in a study's output folder."""

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CHATTY = ("ray", "optuna")


class _LogFile(logging.FileHandler):
    """A log that is not worth failing for: that it cannot be written is said once, on stderr."""

    _told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say it, unless it was said."""
        if not self._told and sys.stderr is not None:
            self._told = True
            print(f"note: the log {self.baseFilename} cannot be written: {sys.exc_info()[1]}", file=sys.stderr)

    def close(self) -> None:
        """Close the file, whatever is left to write."""
        with suppress(OSError):
            super().close()


@contextmanager
def logging_to(folder: Path) -> Iterator[Path]:
    """Append what headtune logs, and the warnings of ray and optuna, to ``folder/headtune.log``.

    Their own printing to the terminal is silenced meanwhile; afterwards every logger is as it was. A log that can no
    longer be written, as on a full disk, changes nothing else.

    Args:
        folder: an existing folder.

    Yields:
        The log file's path.

    Raises:
        OSError: the file cannot be opened.
    """
    path = folder / LOG_NAME
    levels = {"headtune": logging.INFO, **dict.fromkeys(_CHATTY, logging.WARNING)}
    loggers = {logging.getLogger(name): level for name, level in levels.items()}
    before = [(logger, logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    # One handler each: ray writes its own format into the handlers of its logger.
    opened = [_LogFile(path, encoding="utf-8", errors="backslashreplace") for _ in loggers]
    for handler, (logger, level) in zip(opened, loggers.items(), strict=True):
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    try:
        yield path
    finally:
        for logger, level, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        for handler in opened:
            handler.close()
