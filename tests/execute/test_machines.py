"""Which machines of a cluster a trial may run on: counted on paper, and on real raylets.

The raylets all run on this machine, under addresses of their own; they share its lane, which machines do not.
"""

import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from headtune.errors import InputError
from headtune.execute.demand import Demand
from headtune.execute.machines import capacity, located
from headtune.execute.ray_tune import RayExecutor
from headtune.pareto import Objective
from headtune.study import Resources, StudySpec, search
from headtune.timing import LatencyProtocol
from headtune.trial import Outcome, TaskReference

Amounts = dict[str, float]

MakeSpec = Callable[..., StudySpec]

TASKS = Path(__file__).parent.parent / "tasks"


def node(number: int, amounts: Amounts, *, alive: bool = True, host: str = "") -> dict[str, Any]:
    address = f"10.0.0.{number}"
    return {"Alive": alive, "Resources": amounts, "NodeManagerAddress": address, "NodeManagerHostname": host or address}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Machines to be filled in; a dead one with plenty is always among them."""
    there = [node(0, {"CPU": 1000.0, "GPU": 1000.0, "accelerator_type:H100": 1.0}, alive=False, host="dead")]
    monkeypatch.setattr(ray, "nodes", lambda: there)
    return there


@pytest.mark.parametrize(
    ("machines", "cpus", "gpus", "trials"),
    [
        ([{"CPU": 8.0}], 1, 0, 8),
        ([{"CPU": 8.0}], 3, 0, 2),
        ([{"CPU": 2.0}, {"CPU": 2.0}], 3, 0, 0),  # four CPUs, but no machine has three
        ([{"CPU": 3.0}, {"CPU": 3.0}], 2, 0, 2),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 64.0}], 1, 1, 2),
        ([{"CPU": 1.0, "GPU": 4.0}], 1, 0.25, 1),
        ([{"CPU": 100.0, "GPU": 3.0}], 1, 0.1, 30),
        ([{"CPU": 4.0}], 1, 0.5, 0),
    ],
)
def test_a_trial_lies_on_one_machine(
    nodes: list[dict[str, Any]], machines: list[Amounts], cpus: int, gpus: float, trials: int
) -> None:
    nodes += [node(index, one) for index, one in enumerate(machines, 1)]
    assert capacity(Demand(cpus=cpus, gpus=gpus)) == trials


@pytest.fixture
def mixed(nodes: list[dict[str, Any]]) -> None:
    nodes += [
        node(1, {"CPU": 3.0}, host="head"),
        node(2, {"CPU": 8.0, "GPU": 4.0, "accelerator_type:A100": 1.0}, host="fast"),
        node(3, {"CPU": 8.0, "GPU": 2.0, "accelerator_type:A100": 1.0}, host="twin"),
        node(4, {"CPU": 5.0, "GPU": 1.0, "accelerator_type:T4": 1.0}, host="twin"),
    ]


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("demand", "trials"),
    [
        (Demand(), 24),
        (Demand(accelerator="A100"), 16),
        (Demand(gpus=1, accelerator="A100"), 6),
        (Demand(gpus=1, accelerator="T4"), 1),
        (Demand(cpus=2, node="head"), 1),
        (Demand(cpus=2, node="10.0.0.2"), 4),
        (Demand(node="10.0.0.3", gpus=1, accelerator="A100"), 2),
    ],
)
def test_only_machines_that_are_named_count(demand: Demand, trials: int) -> None:
    assert capacity(located("big", demand)) == trials


@pytest.mark.usefixtures("mixed")
def test_a_host_becomes_its_address() -> None:
    assert located("big", Demand(node="fast")) == Demand(node="10.0.0.2")


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("demand", "said"),
    [
        (
            Demand(node="dead"),
            "resources.node: the big cluster has no machine 'dead'; it has 10.0.0.1 (head), 10.0.0.2 (fast), 10.0.0.3 "
            "(twin), 10.0.0.4 (twin)",
        ),
        (
            Demand(node="twin"),
            "resources.node: twin is the name of several machines; name one of 10.0.0.3, 10.0.0.4",
        ),
        (
            Demand(accelerator="H100"),
            "resources.accelerator: the big cluster has no H100; it has A100 on 10.0.0.2 (fast); A100 on 10.0.0.3 "
            "(twin); T4 on 10.0.0.4 (twin)",
        ),
        (
            Demand(node="head", accelerator="T4"),
            "resources.accelerator: the big cluster has no T4 on 10.0.0.1; it has A100 on 10.0.0.2 (fast); A100 on "
            "10.0.0.3 (twin); T4 on 10.0.0.4 (twin)",
        ),
        (
            Demand(gpus=2, accelerator="T4"),
            "resources: a trial asks 1 CPU and 2 GPUs beside accelerator T4; the big cluster has 5 CPUs and 1 GPU "
            "there: ask less, or name a cluster that has them",
        ),
    ],
)
def test_a_place_that_is_not_there_is_refused_with_what_is(demand: Demand, said: str) -> None:
    with pytest.raises(InputError) as caught:
        located("big", demand)
    assert str(caught.value) == said


def test_a_cluster_without_accelerators_says_so(nodes: list[dict[str, Any]]) -> None:
    nodes.append(node(1, {"CPU": 4.0}))
    with pytest.raises(InputError, match=r"the local cluster has no A100; it has none that Ray knows$"):
        located("local", Demand(accelerator="A100"))


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ([{"CPU": 2.0}], "has 2 CPUs and 0 GPUs"),
        ([{"CPU": 2.0}, {"CPU": 2.0}], "has 2 CPUs and 0 GPUs"),
        ([{"CPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}], "has machines of 2 CPUs and 0 GPUs, of 1 CPU and 1 GPU"),
    ],
)
def test_what_no_machine_can_hold_is_refused(nodes: list[dict[str, Any]], machines: list[Amounts], said: str) -> None:
    nodes += [node(index, one) for index, one in enumerate(machines, 1)]
    with pytest.raises(InputError) as caught:
        located("big", Demand(cpus=3, gpus=0.5))
    assert str(caught.value) == (
        f"resources: a trial asks 3 CPUs and 0.5 GPUs; the big cluster {said}: "
        "ask less, or name a cluster that has them"
    )


@pytest.fixture(scope="module")
def raylets() -> Iterator[str]:
    """A cluster of a plain head and a machine that says it has an H100; its address."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2, resources={"accelerator_type:H100": 1}, node_ip_address="127.0.0.2")
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


LOGGED = """

import dataclasses

import ray

plain = task


def task(log: str) -> headtune.Task:
    inner = plain()

    def train(module: nn.Module, run: headtune.Run) -> None:
        with Path(log).open("a") as file:
            file.write(ray.get_runtime_context().get_node_id() + "\\n")
        inner.train(module, run)

    return dataclasses.replace(inner, train=train)
"""
"""The tiny task, which also says on which machine it trains."""


def node_here() -> str:
    found: str = ray.get_runtime_context().get_node_id()
    return found


@pytest.mark.slow
def test_jobs_and_trials_run_where_the_study_says_and_nowhere_else(
    raylets: str, make_spec: MakeSpec, tmp_path: Path
) -> None:
    (tmp_path / "logged.py").write_text((TASKS / "tiny.py").read_text() + LOGGED)
    task = TaskReference(target="logged.py:task", base=tmp_path, args={"log": str(tmp_path / "log")})
    resources = Resources(cluster=raylets, accelerator="H100")
    goals = (Objective(metric="quality", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))
    quick = LatencyProtocol(batch_size=1, max_seconds=0.02, min_samples=6)
    record = search(
        make_spec(task=task, trials=5, executor="ray", resources=resources, objectives=goals, latency=quick, epochs=1)
    )
    executor = RayExecutor(cluster=raylets, node="127.0.0.2")
    there: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    named = next(one["NodeID"] for one in there if one["NodeManagerAddress"] == "127.0.0.2")
    try:
        assert executor.slots == 2, "the head's three CPUs do not count"
        assert executor.call(node_here) == named
    finally:
        executor.close()
    trained = [trial for trial in record.trials if trial.outcome is Outcome.OK]
    assert len(trained) == 5
    assert (tmp_path / "log").read_text().split() == [named] * 5
    assert {trial.latency.host for trial in trained if trial.latency is not None} == {platform.node()}


@pytest.mark.slow
def test_a_machine_that_the_cluster_lacks_is_refused_before_anything_runs(raylets: str) -> None:
    with pytest.raises(InputError, match=r"has no H200; it has H100 on 127\.0\.0\.2"):
        RayExecutor(cluster=raylets, accelerator="H200")
    with pytest.raises(InputError, match=r"^resources.node: the .* cluster has no machine 'far'; it has "):
        RayExecutor(cluster=raylets, node="far")
    assert not ray.is_initialized()
