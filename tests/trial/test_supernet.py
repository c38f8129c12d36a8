"""Training a supernet: which plans each step draws, that all of them learn, and what refuses it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn

import headtune
from headtune.errors import MetricError, TaskError, TrialError
from headtune.execute.inline import InlineExecutor
from headtune.heads import HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective
from headtune.surgery import find_sites
from headtune.timing import LatencyProtocol
from headtune.trial import Task, TaskObject, TrialSetup, supernet
from headtune.trial.plan_costs import PlanCosts
from headtune.trial.plan_scores import PlanScore
from headtune.trial.seeding import seed_everything
from headtune.trial.supernet import train_supernet, why_no_supernet

sys.path.append(str(Path(__file__).parents[1] / "tasks"))
import shared

QUALITY = Objective(metric="quality", direction="maximize")
PARAMETERS = Objective(metric="parameters", direction="minimize")


def space_of(hold: str, **options: object) -> SearchSpace:
    model = shared.Summer()
    return SearchSpace.of(find_sites(model, shared.inputs(3, None)), SpaceOptions(hold=hold, **options))  # type: ignore[arg-type]


def setup_of(task: Task, space: SearchSpace) -> TrialSetup:
    return TrialSetup(
        task=TaskObject(task),
        sites=space.sites,
        hold=space.options.hold,
        weights="fresh",
        objectives=(QUALITY, PARAMETERS),
        latency=LatencyProtocol(batch_size=2),
        needs_memory=False,
        present=HeadPlan.present(space.sites),
    )


def shared_scores(*args: object, say: Callable[[str], None] = lambda _: None) -> tuple[PlanScore, ...]:
    return InlineExecutor().follow(train_supernet, *args, say=say)


def costs(space: SearchSpace) -> PlanCosts:
    return PlanCosts(hold=space.options.hold, latency=None)


def supervised(lr: float = 3e-3) -> Task:
    made = shared.task()
    assert made.batches is not None
    assert made.loss is not None
    return headtune.Supervised(
        model=shared.Summer,
        inputs=shared.inputs,
        batches=made.batches,
        loss=made.loss,
        evaluate=lambda model: {"quality": -float(shared.squared_error(model, shared.examples(0)))},
        monitor="quality",
        mode="max",
        lr=lr,
    )


def test_each_step_takes_the_smallest_the_largest_and_two_random_plans(tmp_path: Path) -> None:
    log, space = tmp_path / "log", space_of("width")
    setup = setup_of(shared.task(log=str(log)), space)
    said: list[str] = []
    shared_scores(setup, space, costs(space), 2, 0, say=said.append)
    assert [sentence.partition(":")[0] for sentence in said] == ["epoch 1 of 2", "epoch 2 of 2", "scoring plans"]
    counted, first, second = log.read_text().splitlines()  # a pass that counts batches, then two of training
    steps = second.split()[1:]
    assert (counted, first) == ("pass", "pass")
    assert len(steps) == 3 * 4
    assert set(steps[0::4]) == {"1-1"}
    assert set(steps[1::4]) == {"16-16"}
    rng = Random(0)
    drawn = [space.sample(rng).label for _ in range(6)]
    assert [steps[at] for at in (2, 3, 6, 7, 10, 11)] == drawn


@pytest.mark.parametrize("hold", ["width", "head_dim"])
def test_every_plan_learns_from_the_one_training(hold: str) -> None:
    space = space_of(hold, heads=(1, 2, 4))
    setup = setup_of(supervised(lr=1e-2), space)
    trained = shared_scores(setup, space, costs(space), 15, 0)
    assert {one.plan for one in trained} == set(space)
    untrained = shared_scores(setup_of(supervised(lr=1e-12), space), space, costs(space), 1, 0)
    for before, after in zip(untrained, trained, strict=True):
        assert after.quality["quality"] > 0.7 * before.quality["quality"], before.plan.label
    parameters = {one.plan: one.costs["parameters"] for one in trained}
    assert (len(set(parameters.values())) == 1) == (hold == "width")
    assert parameters[space.smallest] <= parameters[space.largest]


def test_the_same_seed_gives_the_same_scores() -> None:
    space = space_of("width", heads=(1, 4), tie="uniform")
    setup = setup_of(supervised(), space)
    assert shared_scores(setup, space, costs(space), 1, 3) == shared_scores(setup, space, costs(space), 1, 3)
    assert shared_scores(setup, space, costs(space), 1, 3) != shared_scores(setup, space, costs(space), 1, 4)


@pytest.mark.parametrize("hold", ["width", "head_dim"])
def test_an_interrupted_training_goes_on_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: str
) -> None:
    monkeypatch.setattr(supernet, "SAVE_EVERY_S", 0.0)
    space = space_of(hold, heads=(1, 4))
    setup = replace(setup_of(supervised(), space), scratch=tmp_path)
    whole = shared_scores(replace(setup, scratch=None), space, costs(space), 4, 0)

    def interrupt(sentence: str) -> None:
        if sentence.startswith("epoch 2"):
            raise KeyboardInterrupt

    def started_again(seed: int) -> str:
        said: list[str] = []
        assert (shared_scores(setup, space, costs(space), 4, seed, say=said.append) == whole) == (seed == 0)
        assert not list(tmp_path.iterdir()), "a training that ended leaves nothing"
        return said[0].partition(":")[0]

    for seed, begins in ((0, "epoch 3 of 4"), (1, "epoch 1 of 4")):
        with pytest.raises(KeyboardInterrupt):
            shared_scores(setup, space, costs(space), 4, 0, say=interrupt)
        assert started_again(seed) == begins


def test_one_plan_in_the_space_trains_as_an_ordinary_training_does() -> None:
    """The sandwich of one plan is four times its gradient, which AdamW and the clipping do not see."""
    space = space_of("width", heads=(4,))
    task = replace(supervised(), loss=lambda model, batch: 1e3 * shared.squared_error(model, batch))  # all clipped
    scores = shared_scores(setup_of(task, space), space, costs(space), 3, 0)
    fit = replace(task.train, loss=task.loss)  # type: ignore[type-var]
    reports: list[float] = []

    class Channel:
        def measured(self, measurement: object) -> None: ...

        def report(self, step: int, metrics: dict[str, float]) -> bool:
            reports.append(metrics["quality"])
            return False

    seed_everything(0)
    model: nn.Module = shared.Summer()
    seed_everything(0)
    fit(model, headtune.Run(epochs=3, device="cpu", channel=Channel()))  # type: ignore[misc, arg-type]
    assert scores[0].quality["quality"] == pytest.approx(reports[-1], rel=1e-4)


def test_a_metric_that_evaluate_does_not_give_is_told_before_any_step(tmp_path: Path) -> None:
    log, space = tmp_path / "log", space_of("width")
    with pytest.raises(
        MetricError, match="evaluate gave no quality, by which `evaluator: supernet` scores plans; it gave other"
    ):
        shared_scores(setup_of(shared.task(metric="other", log=str(log)), space), space, costs(space), 2, 0)
    assert not log.exists()


def test_a_training_that_diverges_says_so() -> None:
    space = space_of("width")
    task = replace(shared.task(), loss=lambda model, batch: shared.squared_error(model, batch) * float("nan"))
    with pytest.raises(TrialError, match="the supernet's training diverged in epoch 1 of 2: the loss is nan"):
        shared_scores(setup_of(task, space), space, costs(space), 2, 0)


def test_an_error_of_the_persons_loss_is_a_sentence_with_its_place() -> None:
    def loss(model: nn.Module, batch: object) -> torch.Tensor:
        raise ValueError("no such label")

    space = space_of("width")
    with pytest.raises(TaskError, match=r"task.loss raised ValueError: no such label \(.*test_supernet.py"):
        shared_scores(setup_of(replace(shared.task(), loss=loss), space), space, costs(space), 1, 0)


def test_every_reason_against_a_supernet_is_told() -> None:
    assert why_no_supernet(shared.task(), {"dropout": 0.1}) == ()
    told = why_no_supernet(shared.task(without=("evaluate", "batches", "loss"), lr=True), {"lr": 0.1})
    assert [problem.partition(",")[0] for problem in told] == [
        "has no loss",
        "has no batches",
        "has no evaluate",
        "model takes the param lr",
    ]


def test_scores_that_are_all_no_numbers_are_refused() -> None:
    space = space_of("width", heads=(1, 4))
    task = replace(shared.task(), evaluate=lambda model: {"quality": float("nan")})
    with pytest.raises(TrialError, match=r"none of the supernet's 4 scores is a finite number: evaluate gave .*nan"):
        shared_scores(setup_of(task, space), space, costs(space), 1, 0)
