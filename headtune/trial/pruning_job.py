"""Pruning a trained model to a goal, where the study's trials run."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headtune.heads import HeadPlan
from headtune.surgery import find_sites
from headtune.surgery.checkpoint import Skeleton, load_checkpoint, save_checkpoint
from headtune.surgery.transaction import copied
from headtune.timing import LatencyProfile, measure
from headtune.timing.lane import Lane
from headtune.trial.build import RANKING_SEED, build_model, inputs_of, probe_inputs
from headtune.trial.contract import Progress
from headtune.trial.fitting import to_device
from headtune.trial.forks import one_process
from headtune.trial.measuring import lane_of
from headtune.trial.process_state import kept_process_state
from headtune.trial.prune_options import PruneGoal, Shrinking
from headtune.trial.pursuit import pursue
from headtune.trial.seeding import seed_everything
from headtune.trial.setup import TrialSetup
from headtune.trial.shrinking import PrunePoint, Shrunk, shrinking
from headtune.trial.task import Task
from headtune.trial.timed_loss import timed_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningJob:
    """What is to be pruned, how far, and where the result goes.

    Attributes:
        goal: how far.
        how: in which steps.
        trained: folder of a saved model; ``None`` for what the task's ``model`` returns.
        folder: gets the pruned model.
    """

    goal: PruneGoal
    how: Shrinking
    trained: Path | None
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What came of it.

    Attributes:
        points: the curve, the whole model first.
        chosen: the point whose model was saved; ``None`` where the goal was not reached, and none was.
    """

    points: tuple[PrunePoint, ...]
    chosen: PrunePoint | None


def prune_trained(setup: TrialSetup, job: PruningJob) -> Progress[Pruned]:
    """Prune a trained model step by step, save what reaches the goal, and say of each step what it cost.

    Raises:
        TaskError: the task lacks what is needed, or a function of it failed.
        SurgeryError: a site cannot lose heads.
        StorageError: *trained* holds no model of the task's, or *folder* cannot be written.
    """
    task, lane = setup.task.load(), lane_of(setup)
    with kept_process_state(), lane.shared(), one_process():
        device = torch.device(setup.device)
        model = _trained(setup, task, job).to(device)
        inputs: Any = to_device(probe_inputs(task, setup.latency), device)
        seed_everything(job.how.seed)
        timed = partial(_timed, setup, task, model, lane)
        steps = shrinking(task, model, inputs, find_sites(model, inputs), job.how, timed)
        quality = next(goal for goal in setup.objectives if not goal.measured)
        points: list[PrunePoint] = []
        chosen: Shrunk | None = None
        for step, wanted in pursue(job.goal, steps, quality):
            points.append(step.point)
            chosen = step if wanted else chosen
            yield _said(step.point, quality.metric)
        if chosen is not None:
            plan = HeadPlan.present(find_sites(chosen.model, inputs))
            save_checkpoint(
                chosen.model, job.folder, Skeleton(plan=plan, hold="head_dim", params=setup.baseline_params)
            )
        return Pruned(points=tuple(points), chosen=None if chosen is None else chosen.point)


def _trained(setup: TrialSetup, task: Task, job: PruningJob) -> nn.Module:
    if job.trained is None:
        return build_model(task, setup.baseline_params, RANKING_SEED)
    return load_checkpoint(job.trained, lambda kept: copied(build_model(task, kept.params, RANKING_SEED)))


def _timed(setup: TrialSetup, task: Task, whole: nn.Module, lane: Lane, model: nn.Module) -> LatencyProfile:
    """At the longest of the study's sequence lengths."""
    loss, protocol = timed_loss(task, setup.latency.at(setup.latency.lengths[-1]))
    return measure(model, partial(inputs_of, task), protocol, reference=whole, lane=lane, loss=loss)


def _said(point: PrunePoint, metric: str) -> str:
    ratio = "" if point.latency is None else f", latency × {point.latency.ratio:.3f}"
    return f"heads left: {point.heads}, {metric} {point.quality[metric]:.4g}{ratio}"
