"""From a task and a request to the model that is timed and trained."""

import inspect
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import nn

from headtune.errors import HeadtuneError, TaskError, in_words, place_of
from headtune.heads.plan import HeadPlan
from headtune.surgery import apply_plan
from headtune.trial.params import ParamValue
from headtune.trial.seeding import seed_everything
from headtune.trial.setup import TrialSetup
from headtune.trial.task import Inputs, Task

T = TypeVar("T")

PROBE_BATCH = 3
"""Examples in the pass that watches what a model computes: odd, so that a batch is not mistaken for heads."""


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
    model = _calling("model", lambda: task.model(**named_params(task.model, params)))
    if not isinstance(model, nn.Module):
        raise TaskError(f"task.model returned {type(model).__name__}; it must return a torch.nn.Module")
    return model


def inputs_of(task: Task, batch_size: int, seq_len: int | None) -> Inputs:
    """What the person's ``inputs`` returns for these sizes.

    Raises:
        TaskError: ``inputs`` raised.
    """
    return _calling("inputs", lambda: task.inputs(batch_size, seq_len))


def probe_inputs(task: Task, seq_len: int | None) -> Inputs:
    """A small batch of the task's inputs, for watching a pass."""
    return inputs_of(task, PROBE_BATCH, seq_len)


def build_planned(
    setup: TrialSetup, task: Task, plan: HeadPlan, params: Mapping[str, ParamValue], seed: int
) -> nn.Module:
    """The person's model with *plan* applied and verified, on the trial's device.

    Raises:
        TaskError: ``model`` or ``inputs`` failed.
        SurgeryError: the model does not take the plan.
    """
    model = build_model(task, params, seed)
    inputs = probe_inputs(task, setup.latency.seq_len)
    planned = apply_plan(model, plan, inputs, hold=setup.hold, seed=seed, copy=False, sites=setup.sites)
    return planned.to(torch.device(setup.device))


def _calling(name: str, work: Callable[[], T]) -> T:
    """Run a function of the person's; what it raises becomes a sentence with its place."""
    try:
        return work()
    except (HeadtuneError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise TaskError(f"task.{name} raised {in_words(error)} ({place_of(error)})") from error
