"""Trained heads: ranked as planted, pruned as ``headtune.prune`` does with the planted mask, merged where asked."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.errors import PlanError, TaskError
from headtune.heads import HeadCount, HeadPlan, HeadRanking
from headtune.surgery import find_sites
from headtune.trial import Task
from headtune.trial.importing import import_file
from headtune.trial.keeping import SCORED_BATCHES, kept_digest, kept_model, rank_heads, weight_digests

TASK = Path(__file__).parents[1] / "tasks" / "trained.py"
PATHS = ("layers.0", "layers.1")


@pytest.fixture(scope="module")
def trained() -> ModuleType:
    return import_file(TASK, "trained")


def ranked(task: Task) -> HeadRanking:
    model, inputs = task.model(), task.inputs(3, None)
    return rank_heads(task, model, inputs, find_sites(model, inputs))


def plan(*counts: tuple[int, int], size: int = 4) -> HeadPlan:
    return HeadPlan.of({path: HeadCount(*count, size) for path, count in zip(PATHS, counts, strict=True)})


def kept(task: Task, wanted: HeadPlan) -> nn.Module:
    model, inputs = task.model(), task.inputs(3, None)
    return kept_model(model, wanted, inputs, ranked(task), find_sites(model, inputs))


def order(scores: tuple[float, ...]) -> list[int]:
    return sorted(range(len(scores)), key=lambda head: -scores[head])


@pytest.mark.parametrize("scored", [True, False])
def test_heads_are_ranked_as_they_were_planted(trained: ModuleType, scored: bool) -> None:
    ranking = ranked(trained.task(scored=scored))
    assert ranking.criterion == ("gradient" if scored else "norm")
    for path, worth in zip(PATHS, trained.WORTH, strict=True):
        assert order(ranking.scores[path]) == order(worth)


def test_the_norms_are_in_the_planted_ratios(trained: ModuleType) -> None:
    scores = ranked(trained.task(scored=False)).scores
    for path, worth in zip(PATHS, trained.WORTH, strict=True):
        ratios = [score / max(scores[path]) for score in scores[path]]
        assert ratios == pytest.approx(worth, rel=1e-5)  # orthogonal in float32


@torch.no_grad()
def test_a_kept_model_is_the_one_pruned_with_the_planted_mask(trained: ModuleType) -> None:
    task, x = trained.task(), trained.data(3)
    small = kept(task, plan((2, 2), (3, 3)))
    by_hand = headtune.prune(task.model(), {"layers.0": [1, 3], "layers.1": [0, 1, 3]}, (x,))
    assert torch.equal(small(x), by_hand(x))
    state = by_hand.state_dict()
    assert {name: value.shape for name, value in small.state_dict().items()} == {
        name: value.shape for name, value in state.items()
    }
    assert all(torch.equal(value, state[name]) for name, value in small.state_dict().items())


@torch.no_grad()
def test_whole_groups_stay_by_their_sum_and_heads_within_by_their_own(trained: ModuleType) -> None:
    task, x = trained.task(kv_heads=2), trained.data(3)
    whole = kept(task, plan((2, 1), (2, 1)))  # the groups weigh 1.003 and 0.9, then 1.6 and 0.303
    assert torch.equal(whole(x), headtune.prune(task.model(), {"layers.0": [0, 1], "layers.1": [0, 1]}, (x,))(x))
    each = kept(task, plan((2, 2), (2, 2)))
    assert torch.equal(each(x), headtune.prune(task.model(), {"layers.0": [1, 3], "layers.1": [0, 3]}, (x,))(x))


@torch.no_grad()
def test_key_value_heads_are_merged_where_groups_grow(trained: ModuleType) -> None:
    task, x = trained.task(), trained.data(3)
    wanted = plan((2, 1), (4, 2))
    small = kept(task, wanted)
    pruned = headtune.prune(task.model(), {"layers.0": [1, 3]}, (x,))
    assert torch.equal(small(x), headtune.merge_kv(pruned, wanted, (x,))(x))
    assert HeadPlan.present(find_sites(small, (x,))) == wanted
    # One key/value head that is the mean of those of heads 1 and 3, in float64 and rounded once.
    weight = task.model().layers[0].v.weight.detach().view(4, 4, 16)
    mean = ((weight[1].double() + weight[3].double()) / 2).float()
    assert torch.equal(small.layers[0].v.weight, mean)  # type: ignore[index, union-attr]


def test_the_present_plan_is_a_copy_as_it_is(trained: ModuleType) -> None:
    task = trained.task()
    same = kept(task, plan((4, 4), (4, 4)))
    assert same is not task.model()
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in task.model().state_dict().items())


def test_a_model_that_everyone_shares_is_left_as_it_was(trained: ModuleType) -> None:
    task = trained.task()
    model = task.model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kept(task, plan((1, 1), (2, 1)))
    assert task.model() is model
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_trained_heads_cannot_become_is_refused(trained: ModuleType) -> None:
    with pytest.raises(PlanError, match=r"layers\.1: trained heads, 4/2x4 at present, cannot become 3/1x4"):
        kept(trained.task(kv_heads=2), plan((4, 2), (3, 1)))
    with pytest.raises(PlanError, match="their head_dim stays 4"):
        kept(trained.task(), plan((4, 4), (4, 4), size=8))


def test_only_the_first_batches_are_asked_for(trained: ModuleType) -> None:
    asked: list[int] = []

    def endless() -> Any:
        number = 0
        while True:
            asked.append(number)
            yield trained.data(number)
            number += 1

    ranked(replace(trained.task(), batches=endless))
    assert len(asked) == SCORED_BATCHES


def broken_batches() -> Any:
    yield torch.zeros(2, 5, 16)
    raise OSError("the disk is gone")


def broken_loss(model: nn.Module, x: Tensor) -> Tensor:
    raise KeyError("labels")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": broken_batches}, "task.batches raised OSError: the disk is gone ("),
        ({"loss": broken_loss}, "task.loss raised KeyError: 'labels' ("),
        ({"batches": list}, "importance: there is no batch; give at least one"),
    ],
)
def test_what_goes_wrong_is_told(trained: ModuleType, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError) as caught:
        ranked(replace(trained.task(), **changes))
    assert str(caught.value).startswith(message)


def test_a_gradient_that_is_not_finite_ranks_nothing(trained: ModuleType) -> None:
    def wild(model: nn.Module, x: Tensor) -> Tensor:
        return (model(x).sum() * 0.0).sqrt()  # 0, with an infinite slope

    with pytest.raises(TaskError) as caught:
        ranked(replace(trained.task(), loss=wild))
    assert str(caught.value) == (
        "task.loss: its gradient at the heads of layers.0, layers.1 is not finite; heads have no order"
    )


class Odd(nn.Module):
    """State of every kind of dense tensor, and some that are none."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.turned = nn.Parameter(torch.full((2, 3), value, dtype=torch.bfloat16).t())
        self.register_buffer("number", torch.tensor(3))
        self.register_buffer("empty", torch.zeros(0, 2))
        self.register_buffer("wave", torch.tensor([1 + 2j]).conj())
        self.register_buffer("sparse", torch.eye(2).to_sparse())
        self.register_buffer("nowhere", torch.zeros(2, device="meta"))


def test_equal_bytes_have_equal_digests_and_others_others() -> None:
    one, same, other = weight_digests(Odd(1.0)), weight_digests(Odd(1.0)), weight_digests(Odd(1.5))
    assert one == same
    assert one.keys() == {"turned", "number", "empty", "wave"}
    assert {name for name in one if one[name] != other[name]} == {"turned"}
    zeros = (torch.zeros(4), torch.zeros(2, 2), torch.zeros(2).double())  # 16 bytes each
    assert len({weight_digests(nn.ParameterList([tensor]))["0"] for tensor in zeros}) == 3


def test_an_adapter_that_is_drawn_anew_beside_trained_weights_is_let_through(trained: ModuleType) -> None:
    def adapted(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        model = deepcopy(trained.trained(4))
        for layer in model.layers:
            layer.adapter = nn.Parameter(torch.randn(2))
        return model

    first, second = adapted(0), adapted(1)
    sites = find_sites(first, (trained.data(0),))
    assert kept_digest(first, weight_digests(second), sites) == kept_digest(second, weight_digests(first), sites)
    drawn = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})
    with pytest.raises(TaskError, match=r"returns other weights each time it is called, as at layers\.0;"):
        kept_digest(drawn, {}, sites)
