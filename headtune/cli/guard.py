"""What stands around every verb: an error becomes sentences and an exit code; its traceback goes to the log."""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import typer

import headtune
from headtune._logging import logging_to
from headtune.cli.terminal import say
from headtune.cli.wording import together
from headtune.errors import HeadtuneError, StorageError, in_words, out_of_memory, traced

INTERRUPTED = 130

_NO_ROOM = "not enough memory ({}); make latency.batch_size, latency.seq_len or the model smaller"

_PACKAGE = Path(headtune.__file__).parent
_log = logging.getLogger(__name__)


class Session:
    """One call of a verb."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.log: Path | None = None

    def log_to(self, folder: Path) -> None:
        """Keep the log in *folder*, which is made where it is missing, until the verb ends.

        Raises:
            StorageError: nothing can be written there.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.log = self._stack.enter_context(logging_to(folder))
        except OSError as error:
            raise StorageError(
                f"{folder}: cannot be written ({error.strerror}); name another folder with `output`"
            ) from error


@contextmanager
def guard(verbose: bool, interrupted: str = "interrupted") -> Iterator[Session]:
    """Turn whatever ends a verb into sentences on stderr and an exit code.

    Args:
        verbose: whether tracebacks are shown.
        interrupted: what is said after Ctrl-C.

    Raises:
        typer.Exit: instead of any other exception.
    """
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.showwarning = _note
        session = Session(stack)
        try:
            yield session
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            say(interrupted)
            raise typer.Exit(INTERRUPTED) from None
        except HeadtuneError as error:
            _log.info("ended with exit code %d\n%s", error.exit_code, traced(error).rstrip())
            for problem in together(error.problems):
                say(problem, mark="error")
            _show(error, verbose)
            raise typer.Exit(error.exit_code) from None
        except BaseException as error:  # SystemExit too: the exit code is headtune's to choose
            no_room = out_of_memory(error)
            say(_NO_ROOM.format(in_words(error)) if no_room else _unexpected(session, error), mark="error")
            _show(error, verbose)
            raise typer.Exit(2 if no_room else 1) from None


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning: headtune's own are for the person, those of other packages for the log."""
    if Path(filename).is_relative_to(_PACKAGE):
        say(str(message), mark="note")
    else:
        _log.info("%s: %s (%s, line %d)", category.__name__, message, filename, lineno)


def _show(error: BaseException, verbose: bool) -> None:
    if verbose:
        say(traced(error).rstrip())


def _unexpected(session: Session, error: BaseException) -> str:
    """A sentence for an error that nobody foresaw, whose traceback goes to the log."""
    sentence = f"headtune failed in a way it should not: {in_words(error)}"
    try:
        if session.log is None:
            session.log_to(Path(tempfile.gettempdir()))
    except (StorageError, OSError):  # no temporary folder either
        return f"{sentence}; run again with -v for the traceback"
    _log.error("unexpected\n%s", traced(error).rstrip())
    return f"{sentence}; the traceback is in {session.log}"
