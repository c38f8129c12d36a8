"""One trial, from request to result: the pure work of a worker, whatever executor runs it."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import nn

from headtune.errors import (
    Diverged,
    HeadtuneError,
    MetricError,
    OtherDeviceError,
    StopTrial,
    in_words,
    out_of_memory,
    place_of,
    printable,
    traced,
)
from headtune.surgery.checkpoint import Skeleton, save_checkpoint
from headtune.timing import Lane
from headtune.trial.build import build_planned
from headtune.trial.contract import Channel
from headtune.trial.forks import one_process
from headtune.trial.measuring import lane_of, measure_trial
from headtune.trial.messages import TrialRequest, TrialResult
from headtune.trial.metrics import returned_metrics
from headtune.trial.outcome import Outcome
from headtune.trial.process_state import kept_process_state
from headtune.trial.run import Run
from headtune.trial.seeding import seed_everything
from headtune.trial.setup import TrialSetup
from headtune.trial.task import Task

T = TypeVar("T")

_LONGEST_DETAIL = 20_000

_UNTRAINED = "scored as it is: the task trains nothing"


def run_trial(setup: TrialSetup, request: TrialRequest, channel: Channel) -> TrialResult:
    """Build the model, apply the plan, measure it alone, and train it, reporting as it goes.

    Whatever happens inside, a result comes back: a trial always says how it ended. Only Ctrl-C passes.
    """
    clock = _Stopwatch()
    try:
        with _threads(setup.threads), _silent_stops():
            return _Trial(setup, request, channel, clock).run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        try:
            return _failed(error, clock)
        except KeyboardInterrupt:
            raise
        except BaseException as unreadable:
            said = f"{in_words(error)} ({place_of(error)}); no more can be told of it: {in_words(unreadable)}"
            return _ended(Outcome.CRASHED, f"{Outcome.CRASHED.sentence}: {said}", clock, detail=traced(error))


@dataclass(frozen=True, slots=True)
class _Trial:
    setup: TrialSetup
    request: TrialRequest
    channel: Channel
    clock: "_Stopwatch"

    def run(self) -> TrialResult:
        lane = lane_of(self.setup)
        task = self.clock.time("import", self.setup.task.load)
        # An import happens once in a process: what it sets, it sets for every trial.
        with kept_process_state(), lane.shared():
            model = self.clock.time("build", lambda: self._build(task))
            if self.request.kind != "verify":
                measurement = self.clock.time(
                    "measure", lambda: measure_trial(self.setup, task, self.request, model, lane)
                )
                self.channel.measured(measurement)
                if self.request.kind == "search" and not measurement.feasible:
                    return _ended(Outcome.INFEASIBLE, measurement.broken, self.clock)
            return self._train(task, model, lane)

    def _build(self, task: Task) -> nn.Module:
        return build_planned(self.setup, task, self.request.plan, self.request.params, self.request.seed)

    def _train(self, task: Task, model: nn.Module, lane: Lane) -> TrialResult:
        run = Run(
            epochs=self.request.epochs,
            seed=self.request.seed,
            params=self.request.params,
            device=torch.device(self.setup.device),
            channel=self.channel,
            folder=None if self.setup.scratch is None else self.setup.scratch / self.request.key,
        )
        seed_everything(self.request.seed)
        handle = lane.attach(model)
        try:
            if task.train is not None:
                train = task.train
                self.clock.time("train", lambda: train(model, run))
                if run.stopped is not None:
                    raise run.stopped  # the task caught it
            with self._kept(model):
                metrics = self.clock.time("evaluate", lambda: self._quality(task, model, run))
                test = self.clock.time("test", lambda: self._test(task, model, run))
        finally:
            handle.remove()
        run.clear()
        return TrialResult(
            outcome=Outcome.OK,
            message=Outcome.OK.sentence if task.train is not None else _UNTRAINED,
            metrics=metrics,
            test_metrics=test,
            seconds=self.clock.seconds,
        )

    @contextmanager
    def _kept(self, model: nn.Module) -> Iterator[None]:
        """Leave a finalist's model, trained on the first fresh seed, where it comes through what is done inside.

        It is written before that, since the person's functions may change the model that they judge.
        """
        setup, request = self.setup, self.request
        if setup.models_dir is None or request.kind != "verify" or request.repeat != 1:
            yield
            return
        counts = request.plan.label.replace("/", "_")[:60]  # 8/2 would be a folder in a folder
        folder = setup.models_dir / f"{counts}-{request.key[:6]}"
        save_checkpoint(model, folder, Skeleton(plan=request.plan, hold=setup.hold, params=request.params))
        try:
            yield
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _quality(self, task: Task, model: nn.Module, run: Run) -> dict[str, float]:
        metrics = dict(run.last)
        if task.evaluate is not None:
            told = returned_metrics("evaluate", task.evaluate(model))
            run.check_finite(told)
            metrics |= told
        missing = [goal.metric for goal in self.setup.objectives if not goal.measured and goal.metric not in metrics]
        if missing:
            came = ", ".join(sorted(metrics)) or "nothing"
            raise MetricError(f"never reported {', '.join(missing)}; it reported {came}")
        return metrics

    def _test(self, task: Task, model: nn.Module, run: Run) -> dict[str, float]:
        if task.test is None or self.request.kind != "verify":
            return {}
        metrics = returned_metrics("test", task.test(model))
        run.check_finite(metrics)
        return metrics


@dataclass(frozen=True, slots=True)
class _Stopwatch:
    seconds: dict[str, float] = field(default_factory=dict)

    def time(self, phase: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        try:
            with one_process():
                return work()
        finally:
            self.seconds[phase] = time.perf_counter() - began


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _silent_stops() -> Iterator[None]:
    """A thread of the task that ``run.report`` ends has nothing to complain of."""
    before = threading.excepthook

    def hook(ended: threading.ExceptHookArgs) -> None:
        if not issubclass(ended.exc_type, StopTrial):
            before(ended)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


def _ended(outcome: Outcome, message: str, clock: _Stopwatch, detail: str = "") -> TrialResult:
    return TrialResult(
        outcome=outcome, message=printable(message), seconds=clock.seconds, detail=printable(detail[-_LONGEST_DETAIL:])
    )


def _failed(error: BaseException, clock: _Stopwatch) -> TrialResult:
    """How a trial ended that raised *error*."""
    if isinstance(error, Diverged):
        return _ended(Outcome.DIVERGED, str(error), clock)
    if isinstance(error, StopTrial):
        return _ended(Outcome.STOPPED, Outcome.STOPPED.sentence, clock)
    if isinstance(error, MetricError):
        return replace(_ended(Outcome.CRASHED, "; ".join(error.problems), clock), unfit=True)
    if isinstance(error, OtherDeviceError):
        return replace(_ended(Outcome.CRASHED, "; ".join(error.problems), clock), misplaced=True)
    outcome = Outcome.OUT_OF_MEMORY if out_of_memory(error) else Outcome.CRASHED
    return _ended(outcome, _sentence(outcome, error), clock, detail=traced(error))


def _sentence(outcome: Outcome, error: BaseException) -> str:
    if isinstance(error, HeadtuneError):
        told = "; ".join(error.problems)
        return told if outcome is Outcome.CRASHED else f"{outcome.sentence}: {told}"
    return f"{outcome.sentence}: {in_words(error)} ({place_of(error)})"
