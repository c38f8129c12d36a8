"""One trial from request to result: every way it can end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headtune.heads import HeadCount, HeadDimConstraint, HeadPlan
from headtune.pareto import Objective
from headtune.surgery import find_sites
from headtune.surgery.checkpoint import load_checkpoint
from headtune.timing import LatencyProtocol
from headtune.trial import Measurement, Outcome, TaskReference, TrialRequest, TrialSetup
from headtune.trial.build import build_planned
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
        needs_latency=False,
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
    assert result.message == "breaks parameters by 465; known before training, so no epoch was paid"
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
    run_trial(setup(needs_latency=True, reference_ms=10.0, limits={"latency_ms": 11.0}), request(plan(4)), channel)
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


def test_threads_are_pinned_and_put_back() -> None:
    before = torch.get_num_threads()
    run_trial(setup(threads=before + 1), request(plan(2)), Recorder())
    assert torch.get_num_threads() == before


def test_a_plan_for_other_sites_ends_the_trial_not_the_study() -> None:
    foreign = HeadPlan.of({"nowhere": HeadCount(1, 1, 16)})
    result = run_trial(setup(), request(foreign), Recorder())
    assert result.outcome is Outcome.CRASHED
    assert "nowhere" in result.message
