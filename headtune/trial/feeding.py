"""Batches of a person's task."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headtune.errors import TaskError
from headtune.trial.calling import calling

_END = object()


def one_pass(batches: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """The batches of one pass.

    Raises:
        TaskError: *batches* raised, at once or on its way.
    """
    rest = calling("batches", lambda: iter(batches()))
    while (batch := calling("batches", lambda: next(rest, _END))) is not _END:
        yield batch


def endless(batches: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """The batches of one pass after the other.

    Raises:
        TaskError: *batches* raised, or a pass has no batch.
    """
    while True:
        count = 0
        for batch in one_pass(batches):
            count += 1
            yield batch
        if count == 0:
            raise TaskError("task.batches returned no batch; it must start anew at each call")
