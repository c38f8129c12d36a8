"""The person's model and inputs, and the model with a plan applied."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import SpaceError, SurgeryError, TaskError
from headtune.heads import HeadCount, HeadPlan, HeadRanking
from headtune.surgery import find_sites, prune
from headtune.timing import LatencyProtocol
from headtune.trial import Task, TaskObject, TaskReference, TrialSetup
from headtune.trial.build import build_model, build_planned, inputs_of, named_params, probe_inputs, rank

WIDTH = 8


class Encoder(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, 2, dropout, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.attn(x, x, x, need_weights=False)[0]
        return out


def inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
    return (torch.zeros(batch_size, seq_len or 5, WIDTH),)


def task(**functions: Any) -> Task:
    return Task(**{"model": Encoder, "inputs": inputs, "train": lambda model, run: None} | functions)


def test_a_model_gets_the_params_that_it_names() -> None:
    params = {"lr": 0.1, "dropout": 0.2, "depth": 3}
    assert named_params(lambda: Encoder(), params) == {}
    assert named_params(lambda dropout=0.0: Encoder(), params) == {"dropout": 0.2}
    assert named_params(lambda *, depth, dropout: Encoder(), params) == {"dropout": 0.2, "depth": 3}
    assert named_params(lambda **anything: Encoder(), params) == params


def test_a_seed_makes_the_same_weights_and_another_one_others() -> None:
    def weights(seed: int) -> torch.Tensor:
        return nn.utils.parameters_to_vector(build_model(task(), {}, seed).parameters())

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_params_reach_the_model() -> None:
    model = build_model(task(), {"dropout": 0.25, "lr": 1.0}, 0)
    assert isinstance(model, Encoder)
    assert model.attn.dropout == 0.25


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TaskError) as caught:
        build_model(task(model=lambda: 3), {}, 0)
    assert str(caught.value) == "task.model returned int; it must return a torch.nn.Module"


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), SystemExit(0), GeneratorExit(), BaseException("odd")])
@pytest.mark.parametrize("name", ["model", "inputs"])
def test_what_a_function_raises_is_told_with_its_place(error: BaseException, name: str) -> None:
    def broken(*args: object) -> None:
        raise error

    line = broken.__code__.co_firstlineno + 1
    broken_task = task(**{name: broken})
    with pytest.raises(TaskError) as caught:
        probe_inputs(broken_task, LatencyProtocol()) if name == "inputs" else build_model(broken_task, {}, 0)
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    assert str(caught.value) == f"task.{name} raised {said} ({Path(__file__)}, line {line}, in broken)"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SpaceError("its own words")])
def test_ctrl_c_and_headtunes_own_errors_pass_as_they_are(error: BaseException) -> None:
    def broken() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        build_model(task(model=broken), {}, 0)
    assert caught.value is error


def test_inputs_are_asked_for_their_sizes_and_the_probe_is_small_and_odd() -> None:
    assert inputs_of(task(), 4, 7)[0].shape == (4, 7, WIDTH)
    assert probe_inputs(task(), LatencyProtocol())[0].shape == (3, 5, WIDTH)
    assert probe_inputs(task(), LatencyProtocol(seq_len=(9, 12)))[0].shape == (3, 9, WIDTH)


def setup() -> TrialSetup:
    return TrialSetup(
        task=TaskObject(task()),
        sites=find_sites(Encoder(), inputs(3, None)),
        hold="width",
        weights="fresh",
        objectives=(),
        latency=LatencyProtocol(device="cpu", threads=1),
        needs_memory=False,
        present=HeadPlan.of({"attn": HeadCount(2, 2, 4)}),
    )


def test_a_planned_model_computes_with_the_plan_and_keeps_the_weights() -> None:
    plan = HeadPlan.of({"attn": HeadCount(4, 4, 2)})
    model = build_planned(setup(), task(), plan, {}, 5)
    (site,) = find_sites(model, inputs(3, None))
    assert (site.num_heads, site.head_dim) == (4, 2)
    kept = build_model(task(), {}, 5).state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.state_dict().items())


def test_a_plan_that_the_model_does_not_take_is_refused() -> None:
    with pytest.raises(SurgeryError, match="nowhere"):
        build_planned(setup(), task(), HeadPlan.of({"nowhere": HeadCount(1, 1, 8)}), {}, 0)


TRAINED = TaskReference(target="trained.py:task", base=Path(__file__).parents[1] / "tasks", args={})


def keeping(**args: Any) -> TrialSetup:
    reference = replace(TRAINED, args=args)
    loaded = reference.load()
    sites = find_sites(loaded.model(), loaded.inputs(3, None))
    present = HeadPlan.present(sites)
    return replace(setup(), task=reference, sites=sites, hold="head_dim", weights="keep", present=present)


def test_trained_heads_stay_by_the_studys_ranking_whatever_the_seed() -> None:
    wanted = keeping()
    task = wanted.task.load()
    ranking = HeadRanking(scores={"layers.0": (4, 3, 2, 1), "layers.1": (1, 1, 1, 2)}, criterion="gradient")
    plan = HeadPlan.of({"layers.0": HeadCount(2, 2, 4), "layers.1": HeadCount(1, 1, 4)})
    models = [build_planned(replace(wanted, ranking=ranking), task, plan, {}, seed) for seed in (0, 7)]
    truth = prune(task.model(), {"layers.0": [0, 1], "layers.1": [3]}, task.inputs(3, None)).state_dict()
    for model in models:
        assert all(torch.equal(value, truth[name]) for name, value in model.state_dict().items())


def test_a_setup_without_a_ranking_goes_by_the_norms() -> None:
    wanted = keeping()
    plan = HeadPlan.of({"layers.0": HeadCount(2, 2, 4), "layers.1": HeadCount(1, 1, 4)})
    model = build_planned(wanted, wanted.task.load(), plan, {}, 0)
    task = wanted.task.load()
    truth = prune(task.model(), {"layers.0": [1, 3], "layers.1": [0]}, task.inputs(3, None)).state_dict()
    assert all(torch.equal(value, truth[name]) for name, value in model.state_dict().items())


def test_the_ranking_is_the_same_each_time() -> None:
    assert rank(keeping()) == rank(keeping())
    assert rank(keeping()).criterion == "gradient"
    assert rank(keeping(scored=False)).criterion == "norm"
