"""The Ray executor, on real workers. One Ray serves the whole file."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from headtune.errors import InputError, MeasurementError, TaskError
from headtune.execute import cluster
from headtune.execute.cluster import start
from headtune.execute.ray_tune import RayExecutor
from headtune.search import Ledger
from headtune.search.judgement import STOPPED_ITSELF
from headtune.study import Resources, StudySpec, search
from headtune.trial import Outcome, Silent, TrialRecord
from headtune.trial.contract import Progress

MakeSpec = Callable[..., StudySpec]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    start("local", 2)
    yield
    ray.shutdown()


def fail_with_zero() -> None:
    raise ZeroDivisionError("in the worker")


def die() -> None:
    os._exit(1)


@pytest.mark.slow
def test_call_runs_elsewhere_and_brings_back_values_and_errors() -> None:
    executor = RayExecutor()
    assert executor.call(os.getpid) != os.getpid()
    with pytest.raises(ZeroDivisionError, match="in the worker"):
        executor.call(fail_with_zero)


def counting_until_told(file: Path) -> Progress[int]:
    """Ends once the driver has written what it heard: were it to hear all at the end, this would never end."""
    yield str(os.getpid())
    while not file.exists():
        time.sleep(0.01)
    yield "heard"
    return 7


def test_what_a_long_job_yields_is_said_as_it_comes(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "heard"

    def say(sentence: str) -> None:
        said.append(sentence)
        file.touch()

    assert RayExecutor().follow(counting_until_told, file, say=say) == 7
    assert said[1:] == ["heard"]
    assert int(said[0]) != os.getpid()


def test_a_trial_that_no_machine_can_hold_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        RayExecutor(cpus=1000)
    assert "a trial asks 1000 CPUs and 0 GPUs; the local cluster has" in str(caught.value)


@pytest.mark.slow
def test_the_executors_agree_on_every_plan_and_every_quality(make_spec: MakeSpec, tmp_path: Path) -> None:
    """A seeded study with one worker: the same plans in the same order, the same qualities to the last bit."""
    changes = {"trials": 14, "sampler": "tpe", "epochs": 3, "resources": Resources(concurrent=1)}
    inline = search(make_spec(**changes, storage=f"sqlite:///{tmp_path / 'inline.db'}"))
    in_ray = search(make_spec(**changes, storage=f"sqlite:///{tmp_path / 'ray.db'}", executor="ray"))
    assert [trial.plan for trial in inline.trials] == [trial.plan for trial in in_ray.trials]
    assert [trial.metrics for trial in inline.trials] == [trial.metrics for trial in in_ray.trials]
    assert [trial.curve for trial in inline.trials] == [trial.curve for trial in in_ray.trials]


@pytest.mark.slow
def test_bad_trials_end_with_their_reasons_and_the_others_finish(
    make_spec: MakeSpec, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = {"1": "raise", "2": "nan", "8": "memory", "16": "exit"}
    record = search(make_spec({"bad": bad}, trials=5, executor="ray"))
    by_heads: dict[int, set[Outcome | None]] = {}
    for trial in record.trials:
        by_heads.setdefault(trial.plan.counts[0][1].num_heads, set()).add(trial.outcome)
    expected = {1: "crashed", 2: "diverged", 4: "ok", 8: "out_of_memory", 16: "crashed"}
    assert by_heads == {heads: {Outcome(expected[heads])} for heads in by_heads}
    assert by_heads.keys() >= {1, 4, 16}
    assert sum(trial.outcome is Outcome.OK for trial in record.trials) == 5
    died = [trial for trial in record.trials if trial.plan.counts[0][1].num_heads == 16]
    assert all(
        trial.message
        == "lost its worker 3 times: its process died without a word: killed, out of memory, or ended by os._exit"
        for trial in died
    )
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_task_that_raises_stop_trial_itself_ends_its_trial_and_is_not_taken_for_a_lost_worker(
    make_spec: MakeSpec,
) -> None:
    record = search(make_spec({"bad": {"1": "stop"}}, trials=3, executor="ray"))
    stopped = [trial for trial in record.trials if trial.plan.counts[0][1].num_heads == 1]
    assert [(trial.outcome, trial.message) for trial in stopped] == [(Outcome.STOPPED, STOPPED_ITSELF)]


class Killer(Silent):
    """Kills the worker of the second searched trial, once."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.killed = ""

    def trial(self, record: TrialRecord) -> None:
        if self.killed or record.kind != "search" or not record.curve:
            return
        wanted = record.plan.label
        line = next(line for line in reversed(self._log.read_text().splitlines()) if line.startswith(f"{wanted} "))
        os.kill(int(line.split()[-1]), signal.SIGKILL)
        self.killed = wanted


@pytest.mark.slow
def test_a_killed_worker_costs_its_trial_only_one_more_attempt(make_spec: MakeSpec, tmp_path: Path) -> None:
    log = tmp_path / "log"
    killer = Killer(log)
    record = search(make_spec({"log": str(log), "seconds_per_epoch": 0.3}, trials=8, executor="ray", epochs=4), killer)
    assert [trial.outcome for trial in record.trials] == [Outcome.OK] * 8
    assert len({trial.plan for trial in record.trials}) == 8
    started = [line.split()[0] for line in log.read_text().splitlines()]
    assert killer.killed
    assert started.count(killer.killed) == 2
    assert len(started) == 9


@pytest.mark.slow
def test_an_interrupt_keeps_what_finished_and_leaves_no_trial_running(make_spec: MakeSpec) -> None:
    class Interrupt(Silent):
        done = 0

        def trial(self, record: TrialRecord) -> None:
            if record.outcome is not None:
                self.done += 1
                if self.done == 4:
                    os.kill(os.getpid(), signal.SIGINT)

    spec = make_spec({"seconds_per_epoch": 0.2}, trials=8, executor="ray")
    with pytest.raises(KeyboardInterrupt):
        search(spec, Interrupt())
    kept = Ledger.read(spec.storage, spec.name).trials()
    assert sum(trial.outcome is Outcome.OK for trial in kept) >= 4
    assert all(trial.outcome is not None for trial in kept)
    record = search(spec)
    assert [trial.outcome for trial in record.trials] == [Outcome.OK] * 8
    assert len({trial.plan for trial in record.trials}) == 8


@ray.remote(num_cpus=2)
class Occupant:
    """Holds two CPUs."""


class Freeing(Silent):
    """Lets the occupant go when a note says that it is in the way."""

    def __init__(self, occupant: Any) -> None:
        self.occupant = occupant
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)
        ray.kill(self.occupant)


def test_a_job_on_a_busy_cluster_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "FIRST_S", 1.0)
    cores = int(ray.cluster_resources()["CPU"])
    occupy = Occupant.options(num_cpus=cores)  # type: ignore[attr-defined]
    freeing = Freeing(occupy.remote())
    ray.get(freeing.occupant.__ray_ready__.remote())
    executor = RayExecutor(observer=freeing)
    assert executor.call(divmod, 7, 3) == (2, 1)
    assert freeing.notes[0] == (
        "waiting for a free worker: a trial asks 1 CPU and 0 GPUs; the cluster has 0 CPUs and 0 GPUs free now"
    )


class Elsewhere:
    """Arrives only where its module is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("a_module_that_only_the_driver_has",)


def test_a_job_that_the_worker_cannot_load_or_that_ends_it_is_told_in_words() -> None:
    executor = RayExecutor()
    with pytest.raises(
        TaskError, match=r"^a worker cannot load the task \(ModuleNotFoundError: No module named 'a_mod"
    ):
        executor.call(print, Elsewhere())
    with pytest.raises(MeasurementError) as caught:
        executor.call(die)
    assert str(caught.value) == (
        "the worker that measures was lost: "
        "its process died without a word: killed, out of memory, or ended by os._exit"
    )
