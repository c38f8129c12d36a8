"""What many tests need: the tiny task, and studies of it."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headtune.heads import SpaceOptions
from headtune.pareto import Objective
from headtune.study import SearchOptions, StudySpec, VerifyOptions
from headtune.timing import LongVariant
from headtune.trial import TaskReference

# A shell that runs the tests in its background lets them ignore Ctrl-C, and so every process that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # threads of several test processes on few cores wait for each other

TASKS = Path(__file__).parent / "tasks"

QUALITY = Objective(metric="quality", direction="maximize")
PARAMETERS = Objective(metric="parameters", direction="minimize")
LATENCY = Objective(metric="latency_ms", direction="minimize")

MakeSpec = Callable[..., StudySpec]


def tiny_task(**args: Any) -> TaskReference:
    """The task of ``tasks/tiny.py``, by reference, as a study file names it."""
    return TaskReference(target="tiny.py:task", base=TASKS, args=args)


class PlantedTime:
    """The clock of measurements on the CPU, which goes on only where a model says that it took time."""

    def __init__(self) -> None:
        self.now_ns = 0

    def take(self, ms: float) -> None:
        """Let time pass."""
        self.now_ns += round(ms * 1e6)

    def perf_counter_ns(self) -> int:
        """As that of ``time``; reading it takes a microsecond, so that nothing takes no time at all."""
        self.now_ns += 1000
        return self.now_ns


@pytest.fixture
def planted_time(monkeypatch: pytest.MonkeyPatch) -> PlantedTime:
    """Measurements read this clock: what they find does not depend on how busy the machine is."""
    planted = PlantedTime()
    monkeypatch.setattr("headtune.timing.clock.time", planted)
    return planted


@pytest.fixture
def window_variant() -> LongVariant:
    """A window that saves three quarters of time and memory."""
    return LongVariant(
        name="window",
        mode="forward",
        window=128,
        ratio=0.25,
        ratio_interval=(0.2, 0.3),
        median_ms=5.0,
        median_without_ms=20.0,
        memory_mb=10.0,
        memory_without_mb=40.0,
    )


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    """Makes studies of the tiny task: 25 plans, quality against parameters, in this process, without verification."""

    def make(task_args: dict[str, Any] | None = None, **changes: Any) -> StudySpec:
        trials = changes.pop("trials", 8)
        epochs = changes.pop("epochs", 2)
        sampler = changes.pop("sampler", "random")
        values: dict[str, Any] = {
            "name": "tiny",
            "task": tiny_task(**(task_args or {})),
            "space": SpaceOptions(hold="width"),
            "weights": "fresh",
            "objectives": (QUALITY, PARAMETERS),
            "search": SearchOptions(trials=trials, epochs=epochs, sampler=sampler, stop_early=False),
            "verify": VerifyOptions(top=2, seeds=0),
            "executor": "inline",
            "storage": f"sqlite:///{tmp_path / 'study.db'}",
            "output": tmp_path / "out",
        }
        return StudySpec(**{**values, **changes})

    return make
