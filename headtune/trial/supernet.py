"""Training all plans of a space at once, on shared weights, and scoring each with them."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from random import Random
from typing import Any

import torch
from torch import nn

from headtune.errors import MetricError, TaskError, TrialError
from headtune.heads import HeadPlan, SearchSpace
from headtune.pareto.objective import is_measured
from headtune.surgery.sharing import Supernet
from headtune.timing import count_parameters
from headtune.trial.build import build_model, named_params, probe_inputs
from headtune.trial.calling import calling
from headtune.trial.contract import Progress
from headtune.trial.descent import Descent, FitOptions
from headtune.trial.feeding import one_pass
from headtune.trial.fitting import Fit, count_batches, to_device
from headtune.trial.forks import one_process
from headtune.trial.measuring import lane_of
from headtune.trial.metrics import returned_metrics
from headtune.trial.params import ParamValue
from headtune.trial.plan_costs import PlanCosts
from headtune.trial.plan_scores import PlanScore, scored
from headtune.trial.process_state import kept_process_state
from headtune.trial.run import Run
from headtune.trial.seeding import rng_state, seed_everything, set_rng_state
from headtune.trial.setup import TrialSetup
from headtune.trial.task import Task

_OPTIONS = FitOptions(lr=1e-3, weight_decay=0.05, warmup=0.1, clip=1.0)
"""Those that ``Supervised`` begins with, for a task with a train of its own."""

SAVE_EVERY_S = 60.0
"""Seconds between two checkpoints of a supernet."""


def why_no_supernet(task: Task, params: Mapping[str, ParamValue]) -> tuple[str, ...]:
    """What keeps a task from being searched by a supernet; empty where nothing does."""
    needed = {"loss": "trains it", "batches": "trains it", "evaluate": "scores each plan with it"}
    built_with = named_params(task.model, params)
    return (
        *(
            f"has no {name}, and `evaluator: supernet` {why}; give it, or write `evaluator: train`"
            for name, why in needed.items()
            if getattr(task, name) is None
        ),
        *(
            f"model takes the param {name}, which one set of shared weights cannot follow; leave it out of "
            "space.params, or write `evaluator: train`"
            for name in built_with
        ),
    )


def train_supernet(
    setup: TrialSetup, space: SearchSpace, costs: PlanCosts, epochs: int, seed: int
) -> Progress[tuple[PlanScore, ...]]:
    """Train one model with all plans of *space*, and score them with its weights.

    Each step takes the smallest plan, the largest and two random ones, and adds their gradients (the sandwich rule; Yu
    and Huang, Universally slimmable networks and improved training techniques, 2019, https://arxiv.org/abs/1903.05134),
    so that an epoch costs about as much as four of an ordinary training. The steps are those of
    :func:`headtune.Supervised`, with the task's own numbers where it is one, and the params' baseline values.

    Yields how far it is. An interrupted training goes on from its last epoch, or from one of the last minute.

    Args:
        setup: of the study's workers, with fresh weights.
        space: the plans.
        costs: what orders them by what is measured.
        epochs: passes over the task's ``batches``.
        seed: of everything that is drawn.

    Raises:
        TaskError: ``model``, ``batches``, ``loss`` or ``evaluate`` failed.
        MetricError: ``evaluate`` does not say what is an objective; no step was taken.
        SurgeryError: some plan cannot share its weights.
        TrialError: the training diverged.
    """
    task, lane = setup.task.load(), lane_of(setup)
    with kept_process_state(), lane.shared(), one_process():
        device = torch.device(setup.device)
        model = build_model(task, setup.baseline_params, seed).to(device)
        inputs: Any = to_device(probe_inputs(task, setup.latency), device)
        net = Supernet.of(model, inputs, space, seed=seed)
        handle = lane.attach(model)
        try:
            training = _Training(setup, task, net, space, costs, seed)
            training.score(space.largest)  # a metric that is missing shows here
            folder = None if setup.scratch is None else setup.scratch / "supernet"
            run = Run(epochs=epochs, seed=seed, device=device, folder=folder)
            yield from training.fit(run)
            yield "scoring plans"
            scores = scored(space, training.score, setup.objectives, Random(seed))
            run.clear()
            if not any(one.values(setup.objectives) for one in scores):
                raise TrialError(
                    f"none of the supernet's {len(scores)} scores is a finite number: evaluate gave "
                    f"{scores[0].quality} for {scores[0].plan.label}; write `evaluator: train` to search without it"
                )
            return scores
        finally:
            handle.remove()


class _Training:
    """The training and the judging of one supernet."""

    def __init__(
        self, setup: TrialSetup, task: Task, net: Supernet, space: SearchSpace, costs: PlanCosts, seed: int
    ) -> None:
        assert task.loss is not None
        assert task.batches is not None
        assert task.evaluate is not None
        self._setup, self._net, self._space, self._costs, self._seed = setup, net, space, costs, seed
        self._batches, self._evaluate = task.batches, task.evaluate
        fit = task.train if isinstance(task.train, Fit) else None
        loss = task.loss
        self._descent = Descent(
            net.model,
            lambda model, batch: calling("loss", lambda: loss(model, batch)),
            (_OPTIONS if fit is None else fit.options).overridden(setup.baseline_params),
            device=torch.device(setup.device),
            autocast=None if fit is None else fit.autocast,
        )

    def fit(self, run: Run) -> Iterator[str]:
        """Train, epoch by epoch."""
        seed_everything(run.seed)
        rng, epochs, saved = Random(run.seed), run.epochs, time.monotonic()
        total = epochs * calling("batches", lambda: count_batches(self._batches))
        first = self._resume(run, rng)
        for epoch in range(first + 1, epochs + 1):
            began = time.monotonic()
            losses = [
                self._descent.step(to_device(batch, run.device), total, map(self._trained, self._sandwich(rng)))
                for batch in one_pass(self._batches)
            ]
            if not losses:
                raise TaskError(f"batches() gave no batch in epoch {epoch}; it must start anew at each call")
            loss = torch.stack(losses).mean().item()
            if not isfinite(loss):
                raise TrialError(
                    f"the supernet's training diverged in epoch {epoch} of {epochs}: the loss is {loss}; lower lr, "
                    "or write `evaluator: train`"
                )
            if time.monotonic() - saved >= SAVE_EVERY_S or epoch == epochs:
                run.save(self._state(run, epoch, rng))
                saved = time.monotonic()
            yield f"epoch {epoch} of {epochs}: loss {loss:.4g}, {time.monotonic() - began:.3g} s"

    def _state(self, run: Run, epoch: int, rng: Random) -> dict[str, Any]:
        return {
            "of": self._identity(run),
            "weights": self._net.model.state_dict(),
            **self._descent.state(),
            "epoch": epoch,
            "rng": rng.getstate(),
        }

    def _resume(self, run: Run, rng: Random) -> int:
        """Go on with what an interrupted driver has left of this very training; epochs that are done."""
        fresh = rng_state()
        kept = run.restore()
        if kept is None:
            return 0
        if kept["of"] != self._identity(run):
            set_rng_state(fresh)
            return 0
        self._net.model.load_state_dict(kept["weights"])
        self._descent.resume(kept)
        rng.setstate(kept["rng"])
        epochs: int = kept["epoch"]
        return epochs

    def _identity(self, run: Run) -> list[object]:
        shapes = {name: tuple(weight.shape) for name, weight in self._net.model.state_dict().items()}
        ends = [plan.to_json() for plan in (self._space.smallest, self._space.largest)]
        return [run.epochs, run.seed, self._space.size, ends, shapes]

    def score(self, plan: HeadPlan) -> PlanScore:
        """What the shared weights make of *plan*; random numbers are the same for all."""
        seed_everything(self._seed)
        goals = self._setup.objectives
        with torch.no_grad(), self._net.at(plan) as model:
            model.eval()
            quality = returned_metrics("evaluate", calling("evaluate", lambda: self._evaluate(model)))
            parameters = count_parameters(model)
        missing = [goal.metric for goal in goals if not goal.measured and goal.metric not in quality]
        if missing:
            came = ", ".join(quality) or "nothing"
            raise MetricError(
                f"evaluate gave no {', '.join(missing)}, by which `evaluator: supernet` scores plans; it gave {came}"
            )
        measured = dict.fromkeys(filter(is_measured, (*(goal.metric for goal in goals), *self._setup.limits)))
        return PlanScore(
            plan=plan,
            quality=quality,
            costs={metric: self._costs.of(metric, plan, parameters) for metric in measured},
        )

    def _sandwich(self, rng: Random) -> list[HeadPlan]:
        space = self._space
        return [space.smallest, space.largest, space.sample(rng), space.sample(rng)]

    @contextmanager
    def _trained(self, plan: HeadPlan) -> Iterator[nn.Module]:
        with self._net.at(plan) as model:
            model.train()
            yield model
