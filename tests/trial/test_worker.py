"""One trial from request to result: every way it can end."""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import headtune
from headtune.errors import Diverged, StopTrial, TaskError
from headtune.heads import HeadCount, HeadDimConstraint, HeadPlan, HeadRanking
from headtune.pareto import Objective
from headtune.surgery import find_sites
from headtune.surgery.checkpoint import load_checkpoint
from headtune.timing import LatencyProtocol
from headtune.trial import Measurement, Outcome, Run, Task, TaskObject, TaskReference, TrialRequest, TrialSetup
from headtune.trial.build import build_planned
from headtune.trial.importing import import_file
from headtune.trial.worker import run_trial

TASKS = Path(__file__).parents[1] / "tasks"
QUALITY = Objective(metric="quality", direction="maximize")


class Recorder:
    """A channel that remembers, and stops at a given report."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.measurements: list[Measurement] = []
        self.reports: list[tuple[int, Mapping[str, float]]] = []
        self._stop_at = stop_at

    def measured(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        self.reports.append((step, metrics))
        return step == self._stop_at


def plan(first: int, second: int = 4) -> HeadPlan:
    paths = ("encoder.layers.0.self_attn", "encoder.layers.1.self_attn")
    return HeadPlan.of({path: HeadCount(n, n, 16 // n) for path, n in zip(paths, (first, second), strict=True)})


def setup(task_args: dict[str, Any] | None = None, **changes: Any) -> TrialSetup:
    task = TaskReference(target="tiny.py:task", base=TASKS, args=task_args or {})
    loaded = task.load()
    base = TrialSetup(
        task=task,
        sites=find_sites(loaded.model(), loaded.inputs(3, None)),
        hold="width",
        weights="fresh",
        objectives=(QUALITY,),
        latency=LatencyProtocol(device="cpu", threads=1, batch_size=4, max_seconds=0.2),
        needs_memory=False,
        present=plan(4),
    )
    return replace(base, **changes)


def request(chosen: HeadPlan, **changes: Any) -> TrialRequest:
    base = TrialRequest(
        number=0, kind="search", label="", plan=chosen, params={}, repeat=0, seed=7, epochs=3, key="0123456789"
    )
    return replace(base, **changes)


def test_a_trial_measures_reports_and_ends_ok() -> None:
    channel = Recorder()
    result = run_trial(setup(), request(plan(2)), channel)
    assert (result.outcome, result.message) == (Outcome.OK, "trained to the end")
    assert [step for step, _ in channel.reports] == [1, 2, 3]
    assert result.metrics == channel.reports[-1][1]
    assert channel.measurements[0].metrics == {"parameters": 4465}
    assert result.test_metrics == {}


def test_the_same_request_gives_the_same_quality_bit_for_bit() -> None:
    results = [run_trial(setup(), request(plan(2)), Recorder()).metrics for _ in range(2)]
    assert results[0] == results[1]
    assert run_trial(setup(), request(plan(2), seed=8), Recorder()).metrics != results[0]


def test_the_trained_model_computes_with_the_plan() -> None:
    model = build_planned(setup(), setup().task.load(), plan(2, 8), {}, seed=0)
    sites = find_sites(model, setup().task.load().inputs(3, None))
    assert [site.num_heads for site in sites] == [2, 8]


def test_stop_ends_the_trial_at_that_report() -> None:
    channel = Recorder(stop_at=2)
    result = run_trial(setup(), request(plan(2)), channel)
    assert result.outcome is Outcome.STOPPED
    assert len(channel.reports) == 2


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("raise", Outcome.CRASHED, ["raised an error", "ValueError: the data is broken", "tiny.py, line", "in fail"]),
        ("nan", Outcome.DIVERGED, ["quality nan after report 1: not finite"]),
        ("memory", Outcome.OUT_OF_MEMORY, ["ran out of memory", "no room for the batch"]),
        ("silent", Outcome.CRASHED, ["never reported quality; it reported other"]),
    ],
)
def test_what_goes_wrong_ends_the_trial_with_its_reason(fault: str, outcome: Outcome, words: list[str]) -> None:
    result = run_trial(setup({"bad": {"2": fault}}), request(plan(2)), Recorder())
    assert result.outcome is outcome
    assert [word for word in words if word not in result.message] == []
    assert "Traceback" not in result.message


def test_a_limit_on_parameters_ends_a_search_trial_before_any_epoch() -> None:
    channel = Recorder()
    result = run_trial(setup(limits={"parameters": 4000.0}), request(plan(2)), channel)
    assert result.outcome is Outcome.INFEASIBLE
    assert (
        result.message == "breaks parameters: 4465 where 4000 is allowed; known before training, so no epoch was paid"
    )
    assert channel.reports == []
    assert channel.measurements[0].violations == {"parameters": 465.0}


def test_a_baseline_trains_although_it_is_infeasible() -> None:
    channel = Recorder()
    result = run_trial(setup(limits={"parameters": 4000.0}), request(plan(2), kind="baseline"), channel)
    assert result.outcome is Outcome.OK
    assert not channel.measurements[0].feasible


def test_head_dim_is_judged_by_the_worst_site() -> None:
    channel = Recorder()
    wanted = setup(head_dim=HeadDimConstraint(min=8))
    run_trial(wanted, request(plan(2, 8), kind="baseline"), channel)
    assert channel.measurements[0].violations == {"head_dim": 6.0}


def test_latency_is_the_ratio_times_the_frozen_reference_and_judged_by_its_upper_end() -> None:
    channel = Recorder()
    run_trial(
        setup(timed={"latency_ms": None}, reference_ms={"latency_ms": 10.0}, limits={"latency_ms": 11.0}),
        request(plan(2)),
        channel,
    )
    (measurement,) = channel.measurements
    assert measurement.latency is not None
    assert measurement.metrics["latency_ms"] == pytest.approx(10.0 * measurement.latency.ratio)
    assert measurement.violations["latency_ms"] == pytest.approx(10.0 * measurement.latency.ratio_interval[1] - 11.0)


def test_verify_trials_are_not_measured_and_get_their_test_score_and_model(tmp_path: Path) -> None:
    channel = Recorder()
    wanted = setup({"test": True}, models_dir=tmp_path)
    result = run_trial(wanted, request(plan(2), kind="verify", repeat=1), channel)
    assert channel.measurements == []
    assert set(result.test_metrics) == {"test_quality"}
    task = wanted.task.load()
    (folder,) = tmp_path.iterdir()
    model = load_checkpoint(folder, lambda skeleton: build_planned(wanted, task, skeleton.plan, skeleton.params, 99))
    assert task.test is not None
    assert task.test(model) == result.test_metrics


def judged_by(path: Path, **judges: Callable[[nn.Module], Mapping[str, float]]) -> tuple[TrialSetup, Any]:
    """How a verification of two heads ends where these functions judge its model."""
    task = replace(setup().task.load(), **judges)
    wanted = setup(models_dir=path)
    return wanted, run_trial(
        replace(wanted, task=TaskObject(task)), request(plan(2), kind="verify", repeat=1), Recorder()
    )


@torch.no_grad()
def zeroed(model: nn.Module) -> Mapping[str, float]:
    for parameter in model.parameters():
        parameter.zero_()
    return {"other": 0.0}


@pytest.mark.parametrize("judge", ["evaluate", "test"])
def test_the_model_is_left_as_it_was_trained_whatever_judging_does_to_it(tmp_path: Path, judge: str) -> None:
    wanted, result = judged_by(tmp_path, **{judge: zeroed})
    assert result.outcome is Outcome.OK
    (folder,) = tmp_path.iterdir()
    task = wanted.task.load()
    model = load_checkpoint(folder, lambda skeleton: build_planned(wanted, task, skeleton.plan, skeleton.params, 99))
    assert import_file(TASKS / "tiny.py", "tiny").score(model, 1) == result.metrics["quality"]


@pytest.mark.parametrize("judge", ["evaluate", "test"])
def test_a_model_that_cannot_be_judged_is_not_left(tmp_path: Path, judge: str) -> None:
    def broken(model: nn.Module) -> Mapping[str, float]:
        raise ValueError("no data")

    _, result = judged_by(tmp_path, **{judge: broken})
    assert result.outcome is Outcome.CRASHED
    assert list(tmp_path.iterdir()) == []


def test_threads_are_pinned_and_put_back() -> None:
    before = torch.get_num_threads()
    run_trial(setup(threads=before + 1), request(plan(2)), Recorder())
    assert torch.get_num_threads() == before


def test_a_plan_for_other_sites_ends_the_trial_not_the_study() -> None:
    foreign = HeadPlan.of({"nowhere": HeadCount(1, 1, 16)})
    result = run_trial(setup(), request(foreign), Recorder())
    assert result.outcome is Outcome.CRASHED
    assert "nowhere" in result.message


def test_a_task_that_trains_nothing_scores_the_kept_model(tmp_path: Path) -> None:
    task = TaskReference(target="trained.py:task", base=TASKS)
    loaded = task.load()
    sites = find_sites(loaded.model(), loaded.inputs(3, None))
    wanted = setup(
        task=task,
        sites=sites,
        hold="head_dim",
        weights="keep",
        objectives=(Objective(metric="likeness", direction="maximize"),),
        present=HeadPlan.present(sites),
        ranking=HeadRanking(scores={"layers.0": (0, 3, 1, 2), "layers.1": (3, 2, 0, 1)}, criterion="gradient"),
        models_dir=tmp_path,
    )
    chosen = HeadPlan.of({"layers.0": HeadCount(2, 2, 4), "layers.1": HeadCount(2, 1, 4)})
    channel = Recorder()
    result = run_trial(wanted, request(chosen, kind="verify", repeat=1), channel)
    assert (result.outcome, result.message) == (Outcome.OK, "scored as it is: the task trains nothing")
    assert channel.reports == []
    assert result.metrics.keys() == {"likeness"}
    assert result.test_metrics.keys() == {"test_likeness"}
    assert result.metrics == run_trial(wanted, request(chosen, seed=99), Recorder()).metrics
    (folder,) = tmp_path.iterdir()
    assert folder.name == "2-2_1-012345"
    built = build_planned(wanted, loaded, chosen, {}, seed=0)
    back = headtune.load(folder, fresh_stack)
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in built.state_dict().items())
    assert loaded.evaluate is not None
    assert loaded.evaluate(back) == result.metrics


def fresh_stack() -> nn.Module:
    """The skeleton of the trained model, with weights that are not its own."""
    module = import_file(TASKS / "trained.py", "trained")
    stack: nn.Module = module.Stack(module.HEADS)
    return stack


Train = Callable[[nn.Module, Run], None]


def with_task(train: Train | None = None, **functions: Any) -> TrialSetup:
    """The setup of a trial of the tiny task with another *train*, or other functions."""
    base = setup()
    task = base.task.load()
    functions = {"model": task.model, "inputs": task.inputs, "train": train or task.train} | functions
    return replace(base, task=TaskObject(Task(**functions)))


def report_good(model: nn.Module, run: Run) -> None:
    run.report(quality=1.0)


class Odd(BaseException):
    """What libraries raise that want no one to catch it."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Odd("boom"), "Odd: boom"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError(), "CancelledError"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("\x1b[31mred\x1b[0m \ud800"), "ValueError: red \\ud800"),
    ],
)
@pytest.mark.parametrize("place", ["model", "inputs", "train", "evaluate"])
def test_whatever_a_function_raises_ends_the_trial_with_its_reason(
    error: BaseException, words: str, place: str
) -> None:
    def broken(*args: object, **kwargs: object) -> Any:
        raise error

    result = run_trial(with_task(**{"train": report_good, place: broken}), request(plan(2)), Recorder())
    assert result.outcome is Outcome.CRASHED
    assert words in result.message
    assert f"{Path(__file__)}, line" in result.message
    assert (result.message + result.detail).replace("\n", "").isprintable()
    assert not result.unfit


def test_ctrl_c_passes() -> None:
    def interrupted(model: nn.Module, run: Run) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trial(with_task(interrupted), request(plan(2)), Recorder())


def test_memory_that_runs_out_in_the_model_is_told_as_such() -> None:
    def model() -> nn.Module:
        raise MemoryError("no room")

    result = run_trial(with_task(model=model), request(plan(2)), Recorder())
    assert result.outcome is Outcome.OUT_OF_MEMORY
    assert result.message.startswith("ran out of memory: task.model raised MemoryError: no room (")


@pytest.mark.parametrize(
    ("functions", "kind", "message"),
    [
        (
            {"evaluate": lambda model: 0.5},
            "search",
            'Task.evaluate must return a mapping of metric names to numbers, such as {"val_accuracy": 0.91}; '
            "it returned 0.5 (float)",
        ),
        (
            {"test": lambda model: torch.tensor(0.5)},
            "verify",
            'Task.test must return a mapping of metric names to numbers, such as {"val_accuracy": 0.91}; '
            "it returned a Tensor of shape () and type torch.float32",
        ),
        (
            {"train": lambda model, run: run.report(parameters=3, latency_ms=1.0)},
            "search",
            "run.report: headtune measures parameters itself; report it under another name, such as my_parameters; "
            "run.report: headtune measures latency_ms itself; report it under another name, such as my_latency_ms",
        ),
        (
            {"train": lambda model, run: run.report(loss=3.0, accuracy=0.5)},
            "search",
            "never reported quality; it reported accuracy, loss",
        ),
        ({"train": lambda model, run: None}, "search", "never reported quality; it reported nothing"),
    ],
)
def test_a_task_that_reports_other_things_does_not_fit(functions: dict[str, Any], kind: Any, message: str) -> None:
    result = run_trial(with_task(**{"train": report_good} | functions), request(plan(2), kind=kind), Recorder())
    assert (result.outcome, result.message, result.unfit) == (Outcome.CRASHED, message, True)


def test_a_test_score_is_numbers_and_finite() -> None:
    score = {"a": torch.tensor(0.5), "b": True}
    result = run_trial(with_task(report_good, test=lambda model: score), request(plan(2), kind="verify"), Recorder())
    assert result.test_metrics == {"a": 0.5, "b": 1.0}
    assert list(map(type, result.test_metrics.values())) == [float, float]
    wild = with_task(report_good, test=lambda model: {"a": float("nan")})
    result = run_trial(wild, request(plan(2), kind="verify"), Recorder())
    assert (result.outcome, result.message) == (Outcome.DIVERGED, "a nan after report 1: not finite")


def test_a_thread_that_is_stopped_has_nothing_to_complain_of(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[type[BaseException]] = []
    shown: list[type[BaseException]] = []

    def train(model: nn.Module, run: Run) -> None:
        for error in (None, ValueError("seen")):
            thread = threading.Thread(target=report, args=(run, error))
            thread.start()
            thread.join()

    def report(run: Run, error: Exception | None) -> None:
        if error is not None:
            raise error
        try:
            run.report(quality=1.0)
        except BaseException as stop:
            raised.append(type(stop))
            raise

    def show(ended: threading.ExceptHookArgs) -> None:
        shown.append(ended.exc_type)

    monkeypatch.setattr(threading, "excepthook", show)
    run_trial(with_task(train), request(plan(2)), Recorder(stop_at=1))
    assert raised == [StopTrial]
    assert shown == [ValueError]
    assert threading.excepthook is show


@pytest.mark.parametrize(("leaves_by", "code"), [("return", 0), ("raise", 1), ("exit", 5)])
def test_a_process_that_train_forks_ends_where_it_comes_back(leaves_by: str, code: int, tmp_path: Path) -> None:
    codes: list[int] = []

    def train(model: nn.Module, run: Run) -> None:
        child = os.fork()
        if child == 0:
            if leaves_by == "raise":
                raise ValueError
            if leaves_by == "exit":
                raise SystemExit(code)
            return
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        run.report(quality=1.0)

    try:
        result = run_trial(with_task(train), request(plan(2)), Recorder())
    finally:
        (tmp_path / str(os.getpid())).touch()  # who comes here leaves a sign
    assert result.outcome is Outcome.OK
    assert codes == [code]
    assert [file.name for file in tmp_path.iterdir()] == [str(os.getpid())]


def ring() -> BaseException:
    first, second = TaskError("first"), TaskError("second")
    first.__cause__, second.__cause__ = second, first
    return first


class Nameless(type):
    def __getattribute__(cls, name: str) -> object:
        if name in ("__name__", "__qualname__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Unnamed(BaseException, metaclass=Nameless):
    """Its class does not bear to be named."""


class Classless(Exception):
    """Does not bear to be asked for its class."""

    @property
    def __class__(self) -> type:
        raise KeyError("no class")


class Mute(Diverged):
    """Says nothing of why."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


class Empty(TaskError):
    """Was never initialised."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ring, "first"),
        (lambda: Unnamed("boom"), "raised an error or lost its process: Unnamed: boom ({place})"),
        (
            lambda: Classless("boom"),
            "raised an error or lost its process: Classless: boom ({place}); no more can be told of it: "
            "KeyError: 'no class'",
        ),
        (
            Mute,
            "raised an error or lost its process: Mute: (its message cannot be read: RuntimeError) ({place}); "
            "no more can be told of it: RuntimeError: mute",
        ),
        (
            Empty,
            "raised an error or lost its process: Empty: (its message cannot be read: AttributeError) ({place}); "
            "no more can be told of it: AttributeError: 'Empty' object has no attribute 'problems'",
        ),
    ],
)
def test_an_error_that_does_not_bear_to_be_asked_ends_its_trial_alone(
    make: Callable[[], BaseException], words: str
) -> None:
    def train(model: nn.Module, run: Run) -> None:
        raise make()

    result = run_trial(with_task(train), request(plan(2)), Recorder())
    place = train.__code__.co_firstlineno + 1
    assert result.outcome is Outcome.CRASHED
    assert result.message == words.format(place=f"{Path(__file__)}, line {place}, in train")
    assert "in train" in result.detail


def test_memory_that_runs_out_under_errors_of_headtunes_own_is_told_as_such() -> None:
    def train(model: nn.Module, run: Run) -> None:
        try:
            raise MemoryError("no room")
        except MemoryError as error:
            inner = TaskError("inner")
            inner.__cause__ = error
            raise TaskError("outer") from inner

    result = run_trial(with_task(train), request(plan(2)), Recorder())
    assert (result.outcome, result.message) == (Outcome.OUT_OF_MEMORY, "ran out of memory: outer")


def test_a_trial_leaves_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    def train(model: nn.Module, run: Run) -> None:
        run.report(quality=1.0)
        torch.set_default_dtype(torch.float64)
        os.chdir("/")

    assert run_trial(with_task(train), request(plan(2)), Recorder()).outcome is Outcome.OK
    assert (torch.get_default_dtype(), Path.cwd()) == (torch.float32, tmp_path)


def test_what_an_import_sets_holds_for_every_trial(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(
        f"import sys\nimport torch\n\nsys.path.insert(0, {str(TASKS)!r})\n\nfrom tiny import task\n\n"
        "torch.set_default_dtype(torch.float64)\n"
    )
    reference = TaskReference(target="double.py:task", base=tmp_path)
    seen: list[torch.dtype] = []

    def train(model: nn.Module, run: Run) -> None:
        seen.extend({parameter.dtype for parameter in model.parameters()})
        torch.set_default_dtype(torch.float32)
        run.report(quality=1.0)

    class Imported:
        """A task whose file sets a default, trained by a function that sets another."""

        name = "double"

        def load(self) -> Task:
            task = reference.load()
            return Task(model=task.model, inputs=task.inputs, train=train)

    base = replace(setup(), task=Imported())
    try:
        results = [run_trial(base, request(plan(2)), Recorder()) for _ in range(2)]
    finally:
        torch.set_default_dtype(torch.float32)
    assert [result.message for result in results] == [Outcome.OK.sentence] * 2
    assert seen == [torch.float64, torch.float64]


def test_a_task_that_catches_its_end_has_ended_all_the_same() -> None:
    def train(model: nn.Module, run: Run) -> None:
        for step in range(run.epochs):
            try:
                run.report(quality=float(step))
            except BaseException:
                return

    task = replace(setup().task.load(), train=train)
    result = run_trial(replace(setup(), task=TaskObject(task)), request(plan(2)), Recorder(stop_at=2))
    assert result.outcome is Outcome.STOPPED
    assert result.metrics == {}
