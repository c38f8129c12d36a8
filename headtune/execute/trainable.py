"""What runs inside a Ray worker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from ray import tune

from headtune.errors import StopTrial
from headtune.trial.messages import Measurement, TrialResult
from headtune.trial.outcome import Outcome
from headtune.trial.setup import TrialSetup
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


def train(config: dict[str, Any], setup: TrialSetup) -> None:
    """Run one trial; its last message is always the :class:`TrialResult`, unless the driver stopped it."""
    result = run_trial(setup, config["request"], _TuneChannel())
    if result.outcome is Outcome.STOPPED:
        # Tune has asked this thread to end; it must not report again, and code 0 keeps the worker for the next trial.
        raise SystemExit(0)
    tune.report({MESSAGE: result})


def pinned(threads: int, job: Callable[..., T], args: tuple[Any, ...]) -> T:
    """Run *job* with as many threads as a trial has."""
    torch.set_num_threads(threads)
    return job(*args)


class _TuneChannel:
    def measured(self, measurement: Measurement) -> None:
        _send(measurement)

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        _send(Report(step, dict(metrics)))
        return False


def _send(message: Message) -> None:
    try:
        tune.report({MESSAGE: message})
    except SystemExit:
        # How Tune says "stopped" to a function's thread.
        raise StopTrial from None
