"""Heads that go step by step: in the planted order, with the quality of the same model with these heads silenced."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch

from headtune.diagnose import importance
from headtune.errors import TaskError
from headtune.heads import HeadMask
from headtune.surgery import find_sites, gated
from headtune.surgery.wiring import wirings
from headtune.trial import Task
from headtune.trial.importing import import_file
from headtune.trial.prune_options import Shrinking
from headtune.trial.shrinking import Shrunk, shrinking

TASK = Path(__file__).parents[1] / "tasks" / "trained.py"
PATHS = ("layers.0", "layers.1")


@pytest.fixture(scope="module")
def trained() -> ModuleType:
    return import_file(TASK, "trained")


def shrunk(task: Task, how: Shrinking, most: int = 99) -> list[Shrunk]:
    model, inputs = task.model(), task.inputs(3, None)
    return list(islice(shrinking(task, model, inputs, find_sites(model, inputs), how), most))


def gone(steps: list[Shrunk]) -> list[set[tuple[str, int]]]:
    """What went at each step, by path and the number that it has in the whole model."""
    left = [{(path, head) for path, heads in step.point.mask.kept for head in heads} for step in steps]
    return [before - after for before, after in pairwise(left)]


def silenced(task: Task, mask: HeadMask) -> Mapping[str, float]:
    """The quality of the whole model without what the other heads say."""
    model = deepcopy(task.model()).eval()
    gates = {path: torch.zeros(4) for path in PATHS}
    for path, heads in mask.kept:
        gates[path][list(heads)] = 1.0
    assert task.evaluate is not None
    with gated(model, wirings(model, task.inputs(3, None)), gates):
        return task.evaluate(model)


@pytest.mark.parametrize("scored", [True, False], ids=["gradient", "norm"])
def test_one_at_a_time_the_planted_order_comes_out(trained: ModuleType, scored: bool) -> None:
    task = trained.task(scored=scored)
    steps = shrunk(task, Shrinking(share=0.01))
    assert [step.point.heads for step in steps] == [8, 7, 6, 5, 4, 3, 2]
    order = [head for heads in gone(steps) for head in heads]
    for path, worth in zip(PATHS, trained.WORTH, strict=True):
        mine = [head for at, head in order if at == path]
        assert mine == sorted(range(4), key=lambda head: worth[head])[:3], "the loudest stays"


def test_each_step_is_the_whole_model_with_heads_silenced(trained: ModuleType) -> None:
    task = trained.task()
    steps = shrunk(task, Shrinking(share=0.25))
    assert [step.point.heads for step in steps] == [8, 6, 4, 2]
    for step in steps:
        expected = silenced(task, step.point.mask)["likeness"]
        assert step.point.quality["likeness"] == pytest.approx(expected, rel=1e-4, abs=1e-9)  # float32
        assert step.point.parameters == sum(parameter.numel() for parameter in step.model.parameters())
        assert not step.model.training


def test_importance_is_that_of_the_model_that_is_left(trained: ModuleType) -> None:
    task = trained.task()
    steps = shrunk(task, Shrinking(share=0.01))
    for step, went in zip(steps, gone(steps), strict=False):
        found = importance(step.model, task.batches, task.loss)
        shares = {
            (path, head): float(score / found[path].norm())
            for path, heads in step.point.mask.kept
            for head, score in zip(heads, found[path], strict=True)
            if len(heads) > 1
        }
        assert went == {min(shares, key=shares.__getitem__)}


def test_scored_once_or_at_random_the_order_is_fixed_from_the_start(trained: ModuleType) -> None:
    task = trained.task()
    first = importance(task.model(), task.batches, task.loss)
    shares = {
        (path, head): float(score / found.norm()) for path, found in first.items() for head, score in enumerate(found)
    }
    once = [head for heads in gone(shrunk(task, Shrinking(share=0.01, order="once"))) for head in heads]
    assert once == [head for head in sorted(shares, key=shares.__getitem__) if head in once]
    drawn = [gone(shrunk(task, Shrinking(share=0.01, order="random", seed=seed))) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_key_value_heads_go_as_a_whole(trained: ModuleType) -> None:
    steps = shrunk(trained.task(kv_heads=2), Shrinking(share=0.01))
    assert [step.point.heads for step in steps] == [8, 6, 4]
    for step in steps:
        assert all(heads in ((0, 1), (2, 3), (0, 1, 2, 3)) for _, heads in step.point.mask.kept)


def test_the_whole_model_and_every_step_stay_as_they_are(trained: ModuleType) -> None:
    task = trained.task()
    before = deepcopy(task.model().state_dict())
    steps = shrunk(task, Shrinking(share=0.25, steps=5))
    assert all(torch.equal(value, before[name]) for name, value in task.model().state_dict().items())
    assert task.evaluate is not None
    for step in steps:
        assert task.evaluate(step.model) == step.point.quality


def test_the_caller_says_when_it_is_enough(trained: ModuleType) -> None:
    judged = []
    task = trained.task()
    scored = replace(task, evaluate=lambda model: judged.append(model) or task.evaluate(model))
    assert len(shrunk(scored, Shrinking(share=0.01), most=2)) == len(judged) == 2


def test_a_teacher_brings_back_what_the_heads_said(trained: ModuleType) -> None:
    """The task's own loss leads elsewhere: only the whole model knows what it used to put out."""
    task = trained.task()
    left, alone, helped = (
        shrunk(task, Shrinking(share=0.5, steps=steps, lr=1e-2, alpha=alpha, match="states"), most=2)[1].point.quality
        for steps, alpha in ((0, 0.0), (60, 0.0), (60, 1.0))
    )
    assert helped["likeness"] > left["likeness"] > alone["likeness"]


def test_what_the_task_lacks_is_said_at_once(trained: ModuleType) -> None:
    task = replace(trained.task(scored=False), evaluate=None, train=lambda model, run: None)
    with pytest.raises(TaskError) as caught:
        shrunk(task, Shrinking(steps=1))
    assert caught.value.problems == (
        "the task has no evaluate, by which a pruned model is judged",
        "the task has no loss and batches, which training after each pruning takes",
    )
