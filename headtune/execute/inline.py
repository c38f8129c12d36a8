"""Trials one after another in this process: no workers to start, and a debugger sees everything."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from headtune.execute.interrupts import immediate_interrupts
from headtune.trial.contract import Broker, Progress, Signal
from headtune.trial.messages import Measurement
from headtune.trial.seeding import kept_rng_state
from headtune.trial.setup import TrialSetup
from headtune.trial.worker import run_trial

T = TypeVar("T")


class InlineExecutor:
    """Runs one trial at a time in the calling process.

    A trial that ends the process (``os._exit``, the kernel's out-of-memory killer) ends the driver with it; the next
    start finds the study as it was and tries that trial again.
    """

    @property
    def slots(self) -> int:
        """One."""
        return 1

    def run(self, broker: Broker, setup: TrialSetup) -> None:
        """Run trials until the broker has no more."""
        with immediate_interrupts(), kept_rng_state():
            while not isinstance(request := broker.propose(), Signal):
                broker.finish(request.number, run_trial(setup, request, _Direct(broker, request.number)))

    def call(self, job: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        """Run *job* here."""
        with immediate_interrupts(), kept_rng_state():
            return job(*args)

    def follow(self, job: Callable[..., Progress[T]], *args: Any, say: Callable[[str], None]) -> T:  # noqa: ANN401
        """Run *job* here, and say what it yields."""
        with immediate_interrupts(), kept_rng_state(), closing(job(*args)) as work:
            while True:
                try:
                    say(next(work))
                except StopIteration as end:
                    value: T = end.value
                    return value

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True)
class _Direct:
    broker: Broker
    number: int

    def measured(self, measurement: Measurement) -> None:
        self.broker.measured(self.number, measurement)

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        self.broker.beat()
        return self.broker.report(self.number, step, metrics)
