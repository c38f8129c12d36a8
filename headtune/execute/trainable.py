"""What runs inside a Ray worker."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from ray import cloudpickle, tune

from headtune.errors import StopTrial, TaskError, in_words
from headtune.trial.contract import Progress
from headtune.trial.messages import Measurement, TrialResult
from headtune.trial.outcome import Outcome
from headtune.trial.worker import run_trial

T = TypeVar("T")

MESSAGE = "headtune"
"""Key of the one entry in each of our Tune results."""


@dataclass(frozen=True, slots=True)
class Report:
    """One of the task's reports on its way to the driver."""

    step: int
    metrics: Mapping[str, float]


Message = Measurement | Report | TrialResult


def packed(value: object) -> bytes:
    """*value* on its way to a worker, which opens it by :func:`unpacked`, where what goes wrong can be told.

    Raises:
        TaskError: it cannot be pickled.
    """
    try:
        content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TaskError(
            f"the task cannot be sent to workers ({in_words(error)}): let its functions open files, locks and "
            "connections themselves, or name the task by its file in a study file"
        ) from error
    return content


def unpacked(content: bytes) -> Any:  # noqa: ANN401
    """What :func:`packed` was given.

    Raises:
        TaskError: this process cannot load it.
    """
    try:
        return cloudpickle.loads(content)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TaskError(
            f"a worker cannot load the task ({in_words(error)}): install what it imports wherever workers run, or name "
            "the task by its file in a study file"
        ) from error


def train(config: dict[str, Any], setup: bytes) -> None:
    """Run one trial; its last message is always the :class:`TrialResult`, unless the driver stopped it.

    Args:
        config: the request.
        setup: the trial's setup, packed.
    """
    channel = _TuneChannel()
    try:
        result = run_trial(unpacked(setup), config["request"], channel)
    except TaskError as error:
        result = TrialResult(outcome=Outcome.CRASHED, message=str(error))
    except KeyboardInterrupt as error:  # no key reaches a worker's thread: the task raised it
        result = TrialResult(outcome=Outcome.CRASHED, message=f"{Outcome.CRASHED.sentence}: {in_words(error)}")
    if channel.ended:
        # Tune has asked this thread to end; it must not report again, and code 0 keeps the worker for the next trial.
        raise SystemExit(0)
    tune.report({MESSAGE: result})


@dataclass(frozen=True, slots=True)
class Returned:
    """What a job came to, on its way to the driver."""

    value: Any


def at_once(job: Callable[..., T], *args: Any) -> Progress[T]:  # noqa: ANN401
    """A job that says nothing before it has ended."""
    yield from ()
    return job(*args)


def pinned(threads: int, work: bytes) -> Iterator[str | Returned | None]:
    """Run a packed job with as many threads as a trial has.

    Args:
        threads: CPU threads.
        work: the job, which yields how far it is, and its arguments, packed.

    Yields:
        Nothing, once the worker is there; what the job yields; what it returned.
    """
    yield None
    torch.set_num_threads(threads)
    job, args = unpacked(work)
    yield Returned((yield from job(*args)))


class _TuneChannel:
    def __init__(self) -> None:
        self.ended = False

    def measured(self, measurement: Measurement) -> None:
        self._send(measurement)

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        self._send(Report(step, dict(metrics)))
        return False

    def _send(self, message: Message) -> None:
        try:
            tune.report({MESSAGE: message})
        except SystemExit:
            # How Tune says "stopped" to a function's thread; a task that raises StopTrial itself was not told so.
            self.ended = True
            raise StopTrial from None
