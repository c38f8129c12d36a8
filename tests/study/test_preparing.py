"""What workers are told, from what the study says and the check found."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headtune.heads import HeadDimConstraint, HeadPlan, Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.study import LatencyRange, Resources, StudySpec, check
from headtune.study.preparing import needs, protocol_of, trial_setup
from headtune.timing import LatencyProtocol
from headtune.trial import FloatParam

MakeSpec = Callable[..., StudySpec]
QUALITY = Objective(metric="quality", direction="maximize")


@pytest.mark.parametrize(
    ("protocol", "cpus", "device", "threads"),
    [
        (LatencyProtocol(), 1, "cpu", 1),
        (LatencyProtocol(), 3, "cpu", 3),
        (LatencyProtocol(device="cpu", threads=2), 3, "cpu", 2),
    ],
)
def test_what_the_protocol_leaves_open_is_what_a_trial_has(
    make_spec: MakeSpec, protocol: LatencyProtocol, cpus: int, device: str, threads: int
) -> None:
    resolved = protocol_of(make_spec(latency=protocol, resources=Resources(cpus=cpus)))
    assert resolved == replace(protocol, device=device, threads=threads)


@pytest.mark.parametrize(
    ("cluster", "device", "resolved"),
    [("10.0.0.1:6379", "auto", "cuda:0"), ("10.0.0.1:6379", "cuda", "cuda:0"), ("10.0.0.1:6379", "cpu", "cpu")],
)
def test_a_driver_without_a_gpu_may_ask_a_cluster_for_one(
    make_spec: MakeSpec, cluster: str, device: str, resolved: str
) -> None:
    resources = Resources(cluster=cluster, gpus=1, accelerator="A100")
    spec = make_spec(executor="ray", latency=LatencyProtocol(device=device), resources=resources)
    assert protocol_of(spec) == LatencyProtocol(device=resolved, threads=1)


@pytest.mark.parametrize("metric", ["latency_ms", "peak_memory_mb", "parameters"])
def test_a_metric_is_needed_where_it_is_an_objective_or_limited(make_spec: MakeSpec, metric: str) -> None:
    asked: list[dict[str, Any]] = [
        {"objectives": (QUALITY,)},
        {"objectives": (QUALITY, Objective(metric=metric, direction="minimize"))},
        {"objectives": (QUALITY,), "limits": (Limit(metric=metric, max=1.0),)},
    ]
    assert [needs(make_spec(**changes), metric) for changes in asked] == [False, True, True]


def test_a_setup_holds_what_the_study_says_and_the_check_found(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec(
        space=SpaceOptions(hold="width", head_dim=HeadDimConstraint(min=2)),
        params={"lr": FloatParam(low=0.1, high=0.3)},
        objectives=(QUALITY, Objective(metric="peak_memory_mb", direction="minimize")),
        latency=LatencyProtocol(batch_size=3),
        resources=Resources(cpus=2),
    )
    checked = check(spec)
    setup = trial_setup(spec, checked, limits={"parameters": 5000.0})
    assert setup.present == HeadPlan.present(checked.sites)
    assert (setup.sites, setup.hold, setup.weights, setup.objectives) == (
        checked.sites,
        "width",
        "fresh",
        spec.objectives,
    )
    assert (setup.timed, setup.needs_memory, setup.reference_ms) == ({}, True, {})
    assert (setup.threads, setup.device, setup.latency.threads, setup.latency.batch_size) == (2, "cpu", 2, 3)
    assert setup.baseline_params == {"lr": pytest.approx(0.2)}
    assert setup.constraint_names == ("parameters", "head_dim")
    assert (setup.scratch, setup.models_dir) == (tmp_path / "out" / "checkpoints", tmp_path / "out" / "models")
    nowhere = trial_setup(
        replace(spec, output=None), checked, found=LatencyRange(plans={}, profiles={}, reference_ms=2.5)
    )
    assert (nowhere.scratch, nowhere.models_dir, nowhere.reference_ms, nowhere.limits) == (None, None, {}, {})
