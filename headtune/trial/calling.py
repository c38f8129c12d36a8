"""Calling a person's functions, whose errors become sentences."""

from collections.abc import Callable
from typing import TypeVar

from headtune.errors import HeadtuneError, TaskError, in_words, place_of

T = TypeVar("T")


def calling(name: str, work: Callable[[], T]) -> T:
    """Run the task's function of that *name*; what it raises becomes a sentence with its place.

    Raises:
        TaskError: *work* raised what is no error of headtune's own.
    """
    try:
        return work()
    except (HeadtuneError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise TaskError(f"task.{name} raised {in_words(error)} ({place_of(error)})") from error
