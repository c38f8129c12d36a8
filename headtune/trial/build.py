"""From a task and a request to the model that is timed and trained."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from headtune.errors import TaskError
from headtune.heads import HeadPlan, HeadRanking
from headtune.surgery import apply_plan
from headtune.surgery.transaction import copied
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.calling import calling
from headtune.trial.fitting import to_device
from headtune.trial.keeping import kept_model, rank_heads
from headtune.trial.params import ParamValue
from headtune.trial.seeding import seed_everything
from headtune.trial.setup import TrialSetup
from headtune.trial.task import Inputs, Task

PROBE_BATCH = 3
"""Examples in the pass that watches what a model computes: odd, so that a batch is not mistaken for heads."""


RANKING_SEED = 0
"""Of the batches by which heads are ranked, and of what else ``model`` draws: its weights are trained."""


def named_params(model: Callable[..., nn.Module], params: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """Those of *params* that the function *model* names; all of them where it takes ``**kwargs``."""
    accepted = inspect.signature(model).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        return dict(params)
    return {name: value for name, value in params.items() if name in accepted}


def build_model(task: Task, params: Mapping[str, ParamValue], seed: int) -> nn.Module:
    """What the person's ``model`` returns for *params*, initialised from *seed*.

    Raises:
        TaskError: ``model`` raised, or returned something that is not a module.
    """
    seed_everything(seed)
    model = calling("model", lambda: task.model(**named_params(task.model, params)))
    if not isinstance(model, nn.Module):
        raise TaskError(f"task.model returned {type(model).__name__}; it must return a torch.nn.Module")
    return model


def inputs_of(task: Task, batch_size: int, seq_len: int | None) -> Inputs:
    """What the person's ``inputs`` returns for these sizes.

    Raises:
        TaskError: ``inputs`` raised.
    """
    return calling("inputs", lambda: task.inputs(batch_size, seq_len))


def probe_inputs(task: Task, latency: LatencyProtocol) -> Inputs:
    """A small batch of the task's inputs, for watching a pass.

    It has the shortest of the protocol's sequence lengths: the sites are the same at every one, and a pass at the
    longest may not fit where nothing is timed.
    """
    return inputs_of(task, PROBE_BATCH, latency.lengths[0])


def build_planned(
    setup: TrialSetup, task: Task, plan: HeadPlan, params: Mapping[str, ParamValue], seed: int
) -> nn.Module:
    """The person's model with *plan* applied and verified, on the trial's device.

    Where trained weights are kept, the heads stay that the study ranks highest; a setup without a ranking, in which
    models are only timed, ranks them by the norms of their weights.

    Raises:
        TaskError: ``model`` or ``inputs`` failed.
        PlanError: trained heads cannot have the plan's counts.
        SurgeryError: the model does not take the plan.
    """
    model = build_model(task, params, seed)
    inputs = probe_inputs(task, setup.latency)
    if setup.weights == "fresh":
        planned = apply_plan(model, plan, inputs, hold=setup.hold, seed=seed, copy=False, sites=setup.sites)
    else:
        ranking = setup.ranking or rank_heads(replace(task, loss=None), model, inputs, setup.sites)
        planned = kept_model(model, plan, inputs, ranking, setup.sites)
    return planned.to(torch.device(setup.device))


def rank(setup: TrialSetup) -> HeadRanking:
    """The worth of the heads of the person's trained model: asked once in a study, so that every trial goes by it.

    Raises:
        TaskError: ``model``, ``inputs``, ``batches`` or ``loss`` failed, or gives no gradient.
        SurgeryError: the heads of a block cannot be told apart (every reason).
    """
    task, device = setup.task.load(), torch.device(setup.device)
    model = copied(build_model(task, setup.baseline_params, RANKING_SEED)).to(device)
    inputs: Any = to_device(probe_inputs(task, setup.latency), device)
    return rank_heads(task, model, inputs, setup.sites)
