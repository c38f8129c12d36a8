"""The protocols at which deciding (``search``) and doing (``execute``) meet, without knowing each other.

A trial's life: ``broker.propose`` → the worker builds, applies the plan and measures → ``broker.measured`` →
``broker.report`` at each of the task's reports → ``broker.finish``. All broker methods are called from the driver's
process, one at a time; only the broker writes to the durable study.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from headtune.trial.messages import Measurement, TrialRequest, TrialResult
from headtune.trial.record import TrialRecord
from headtune.trial.setup import TrialSetup

T = TypeVar("T")


class Signal(Enum):
    """What a broker says when it has no trial to give."""

    WAIT = "wait"
    DONE = "done"


class Broker(Protocol):
    """Decides what to train next and remembers what came of it."""

    def propose(self) -> TrialRequest | Signal:
        """The next trial; ``WAIT`` until a running one ends; ``DONE`` when nothing is left to start."""
        ...

    def measured(self, number: int, measurement: Measurement) -> None:
        """Remember what is known of trial *number* before it trains."""
        ...

    def report(self, number: int, step: int, metrics: Mapping[str, float]) -> bool:
        """Remember the *step*-th report (from 1) of trial *number*; ``True`` means: stop it now."""
        ...

    def finish(self, number: int, result: TrialResult) -> None:
        """Remember how trial *number* ended. A second call for the same trial is ignored."""
        ...

    def lost(self, number: int, reason: str) -> None:
        """Trial *number* lost its worker through no act of its own code that is known; it may be tried again."""
        ...

    def beat(self) -> None:
        """Keep the lease on the study; called every few seconds while trials run."""
        ...


class Channel(Protocol):
    """A worker's way to the broker."""

    def measured(self, measurement: Measurement) -> None:
        """Send what is known before training."""
        ...

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Send a report; ``True`` means: stop now."""
        ...


Progress = Generator[str, None, T]
"""A long job: yields how far it is, in words, and returns its value."""


class Executor(Protocol):
    """Runs trials and jobs where the study's resources are.

    Every executor pins the threads of the latency protocol, ends its trials on SIGINT and SIGTERM (they are tried again
    at the next start) and then raises KeyboardInterrupt, and leaves nothing running behind.
    """

    @property
    def slots(self) -> int:
        """Trials at once."""
        ...

    def run(self, broker: Broker, setup: TrialSetup) -> None:
        """Run trials until the broker says ``DONE`` and the last one has finished."""
        ...

    def call(self, job: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        """Run *job* in a worker like the trials' and return its value; its errors are raised here."""
        ...

    def follow(self, job: Callable[..., Progress[T]], *args: Any, say: Callable[[str], None]) -> T:  # noqa: ANN401
        """The same for a job that yields sentences of how far it is: they are said here as they come."""
        ...

    def close(self) -> None:
        """Release every worker."""
        ...


class Observer(Protocol):
    """Hears what happens, to show it; never decides."""

    def phase(self, name: str, detail: str = "") -> None:
        """A phase of the study begins.

        That is ``check``, ``rank``, ``profile``, ``supernet``, ``search``, ``verify`` or ``report``.
        """
        ...

    def note(self, message: str) -> None:
        """Something the person should read."""
        ...

    def plan(self, trials: int, finished: int) -> None:
        """How many trials this phase wants, and how many are already there."""
        ...

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """The trials of this phase that had ended before this start."""
        ...

    def trial(self, record: TrialRecord) -> None:
        """A trial started, was measured, reported or ended; *record* is its state now."""
        ...


class Silent:
    """An observer that shows nothing."""

    def phase(self, name: str, detail: str = "") -> None:
        """Ignore."""

    def note(self, message: str) -> None:
        """Ignore."""

    def plan(self, trials: int, finished: int) -> None:
        """Ignore."""

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """Ignore."""

    def trial(self, record: TrialRecord) -> None:
        """Ignore."""
