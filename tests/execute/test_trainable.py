"""What runs inside a worker, called here with a channel to no one but the test."""

import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune

from headtune.errors import TaskError
from headtune.execute.trainable import MESSAGE, Report, Returned, at_once, packed, pinned, train, unpacked
from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import find_sites
from headtune.timing import LatencyProtocol
from headtune.trial import Measurement, Outcome, TaskReference, TrialRequest, TrialResult, TrialSetup
from headtune.trial.build import build_model, probe_inputs

TASKS = Path(__file__).parents[1] / "tasks"
PLAN = HeadPlan.of({f"encoder.layers.{layer}.self_attn": HeadCount(2, 2, 8) for layer in range(2)})
REQUEST = TrialRequest(
    number=0, kind="search", label="", plan=PLAN, params={}, repeat=0, seed=7, epochs=2, key="0123456789"
)


def setup(**task_args: Any) -> TrialSetup:
    source = TaskReference(target="tiny.py:task", base=TASKS, args=task_args)
    task = source.load()
    return TrialSetup(
        task=source,
        sites=find_sites(build_model(task, {}, 0), probe_inputs(task, LatencyProtocol())),
        hold="width",
        weights="fresh",
        objectives=(),
        latency=LatencyProtocol(device="cpu", threads=1),
        needs_memory=False,
        present=PLAN,
    )


class Driver:
    """Takes what the trial reports, and ends it at a report as Tune does."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.messages: list[object] = []
        self._stop_at = stop_at

    def report(self, metrics: dict[str, object]) -> None:
        assert list(metrics) == [MESSAGE]
        message = metrics[MESSAGE]
        assert pickle.loads(pickle.dumps(message)) == message
        self.messages.append(message)
        if isinstance(message, Report) and message.step == self._stop_at:
            raise SystemExit(0)


def driven(monkeypatch: pytest.MonkeyPatch, driver: Driver, **task_args: Any) -> list[object]:
    monkeypatch.setattr(tune, "report", driver.report)
    train({"request": REQUEST}, packed(setup(**task_args)))
    return driver.messages


def test_a_trial_tells_its_measurement_its_reports_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement, *reports, result = driven(monkeypatch, Driver())
    assert isinstance(measurement, Measurement)
    assert [report.step for report in reports if isinstance(report, Report)] == [1, 2]
    assert isinstance(result, TrialResult)
    assert result.outcome is Outcome.OK
    assert result.metrics == reports[-1].metrics  # type: ignore[attr-defined]


def test_a_stopped_trial_leaves_with_code_0_and_reports_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(stop_at=1)
    with pytest.raises(SystemExit) as caught:
        driven(monkeypatch, driver)
    assert caught.value.code == 0
    assert [type(message) for message in driver.messages] == [Measurement, Report]


def test_what_goes_wrong_is_told_as_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    result = driven(monkeypatch, Driver(), bad={"2": "raise"})[-1]
    assert isinstance(result, TrialResult)
    assert result.outcome is Outcome.CRASHED
    assert "ValueError: the data is broken" in result.message


def test_a_key_that_the_task_presses_itself_is_a_crash_in_a_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pressing.py").write_text(
        f"import sys\nsys.path.insert(0, {str(TASKS)!r})\nimport tiny, headtune\nbase = tiny.task()\n"
        "def train(model, run):\n    raise KeyboardInterrupt\n"
        "task = headtune.Task(model=base.model, inputs=base.inputs, train=train)\n"
    )
    driver = Driver()
    monkeypatch.setattr(tune, "report", driver.report)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pressing = TaskReference(target="pressing.py:task", base=tmp_path)
    train({"request": REQUEST}, packed(replace(setup(), task=pressing)))
    result = driver.messages[-1]
    assert isinstance(result, TrialResult)
    assert (result.outcome, result.message) == (
        Outcome.CRASHED,
        "raised an error or lost its process: KeyboardInterrupt",
    )


class Elsewhere:
    """Arrives only where its module is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("a_module_that_only_the_driver_has",)


def test_a_task_that_the_worker_cannot_load_ends_the_trial_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr(tune, "report", driver.report)
    train({"request": REQUEST}, packed(Elsewhere()))
    (result,) = driver.messages
    assert isinstance(result, TrialResult)
    assert result.outcome is Outcome.CRASHED
    assert result.message == (
        "a worker cannot load the task (ModuleNotFoundError: No module named 'a_module_that_only_the_driver_has'): "
        "install what it imports wherever workers run, or name the task by its file in a study file"
    )


def test_what_is_packed_comes_out_again_functions_included() -> None:
    offset = 3
    add = unpacked(packed(lambda number: number + offset))
    assert add(4) == 7


def test_what_cannot_be_sent_is_refused_with_the_reason() -> None:
    lock = threading.Lock()
    with pytest.raises(TaskError) as caught:
        packed(lambda: lock)
    assert str(caught.value) == (
        "the task cannot be sent to workers (TypeError: cannot pickle '_thread.lock' object): let its functions open "
        "files, locks and connections themselves, or name the task by its file in a study file"
    )


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def test_a_job_says_that_it_has_a_worker_then_runs_with_its_threads(threads: int) -> None:
    job = partial(at_once, lambda number: (number, torch.get_num_threads()))
    values = pinned(threads + 1, packed((job, (5,))))
    assert next(values) is None
    assert torch.get_num_threads() == threads
    assert next(values) == Returned((5, threads + 1))
    with pytest.raises(StopIteration):
        next(values)
