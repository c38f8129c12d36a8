"""The log of a study: one file in its output folder. Nothing here prints, and importing changes nothing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOG_NAME = "headtune.log"
"""The file's name in a study's output folder."""

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CHATTY = ("ray", "optuna")


@contextmanager
def logging_to(folder: Path) -> Iterator[Path]:
    """Append what headtune logs, and the warnings of ray and optuna, to ``folder/headtune.log``.

    Their own printing to the terminal is silenced meanwhile; afterwards every logger is as it was.

    Args:
        folder: an existing folder.

    Yields:
        The log file's path.

    Raises:
        OSError: the file cannot be opened.
    """
    path = folder / LOG_NAME
    handler = logging.FileHandler(path, encoding="utf-8", delay=False)
    handler.setFormatter(logging.Formatter(_FORMAT))
    levels = {"headtune": logging.INFO, **dict.fromkeys(_CHATTY, logging.WARNING)}
    loggers = {logging.getLogger(name): level for name, level in levels.items()}
    before = [(logger, logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    for logger, level in loggers.items():
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    try:
        yield path
    finally:
        for logger, level, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        handler.close()
