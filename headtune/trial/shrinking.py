"""A trained model that loses its heads a few at a time: scored again, pruned, trained on, judged.

H heads of a site.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from headtune.errors import TaskError
from headtune.heads import AttentionSite, HeadMask
from headtune.heads.removal import without_least
from headtune.surgery import prune
from headtune.surgery.transaction import copied
from headtune.timing import LatencyProfile, count_parameters
from headtune.trial.calling import calling
from headtune.trial.descent import Descent, FitOptions
from headtune.trial.distilling import Distillation
from headtune.trial.feeding import endless
from headtune.trial.fitting import to_device
from headtune.trial.metrics import returned_metrics
from headtune.trial.prune_options import Shrinking
from headtune.trial.removal_order import RemovalOrder
from headtune.trial.task import Inputs, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePoint:
    """A point of the curve of quality and latency against heads.

    Attributes:
        mask: the heads of the whole model that are left.
        quality: what ``evaluate`` says.
        latency: beside the whole model; ``None`` where it is not timed.
        parameters: how many there are left.
    """

    mask: HeadMask
    quality: Mapping[str, float]
    latency: LatencyProfile | None
    parameters: int

    @property
    def heads(self) -> int:
        """How many are left, over all sites."""
        return sum(len(kept) for _, kept in self.mask.kept)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shrunk:
    """A model after some of its heads went.

    Attributes:
        model: in eval mode; the next step leaves it as it is.
        point: what is known of it.
    """

    model: nn.Module
    point: PrunePoint


def shrinking(
    task: Task,
    model: nn.Module,
    inputs: Inputs,
    sites: Sequence[AttentionSite],
    how: Shrinking,
    timed: Callable[[nn.Module], LatencyProfile | None] = lambda model: None,
) -> Iterator[Shrunk]:
    """Prune *model* step by step, until one head (one key/value group) is left at each of the *sites*.

    Heads make up for one another, so that scores of the whole model mislead once some are gone: they are scored again
    at each step (Michel et al. 2019; their scores are made comparable over sites by the norm of each site's).

    Args:
        task: with ``evaluate``; ``loss`` and ``batches`` score heads and train, else the norms of weights score.
        model: trained, on its device; stays as it is, and teaches.
        inputs: arguments of ``forward``, on that device.
        sites: of *model*; the only ones that lose heads.
        how: the order, and what is trained after each step.
        timed: the latency of a model beside the whole one's.

    Yields:
        The whole model first; then one value for each step. Where the caller stops, nothing more is computed.

    Raises:
        TaskError: the task lacks what is needed, or a function of it failed.
        SurgeryError: a site cannot lose heads.
    """
    _check(task, how)
    whole = copied(model).eval()
    step = max(1, round(how.share * sum(site.num_heads for site in sites)))
    now = _judged(task, whole, HeadMask.of({site.path: range(site.num_heads) for site in sites}), timed)
    ranking = RemovalOrder(task, inputs, sites, how.order, how.seed)
    while True:
        yield now
        mask = without_least(now.point.mask, sites, ranking.scores(now.model, now.point.mask), step)
        if mask == now.point.mask:
            return
        cut = prune(now.model, _within(mask, now.point.mask), inputs)
        if how.steps:
            _train(task, cut, whole, how)
        now = _judged(task, cut, mask, timed)


def _within(mask: HeadMask, before: HeadMask) -> HeadMask:
    """*mask*, in the numbers that the heads of *before* have in the model that lost the others."""
    return HeadMask.of({path: [before[path].index(head) for head in kept] for path, kept in mask.kept})


def _judged(
    task: Task, model: nn.Module, mask: HeadMask, timed: Callable[[nn.Module], LatencyProfile | None]
) -> Shrunk:
    evaluate = task.evaluate
    assert evaluate is not None
    model.eval()
    with torch.no_grad():
        quality = returned_metrics("evaluate", calling("evaluate", lambda: evaluate(model)))
    model.eval()
    point = PrunePoint(mask=mask, quality=quality, latency=timed(model), parameters=count_parameters(model))
    return Shrunk(model=model, point=point)


def _train(task: Task, model: nn.Module, teacher: nn.Module, how: Shrinking) -> None:
    """Train *model* for some steps, in place."""
    own, batches, device = task.loss, task.batches, next(model.parameters()).device
    assert own is not None
    assert batches is not None

    def told(model: nn.Module, batch: Any) -> Tensor:  # noqa: ANN401
        return calling("loss", lambda: own(model, batch))

    taught = Distillation(alpha=how.alpha, temperature=how.temperature, match=how.match)
    loss = taught.loss(told, teacher) if how.alpha > 0 else told
    fit = FitOptions(lr=how.lr, weight_decay=0.0, warmup=0.1, clip=1.0)
    descent = Descent(model.train(), loss, fit, device=device, autocast=None)
    for batch in islice(endless(batches), how.steps):
        descent.step(to_device(batch, device), how.steps, [nullcontext(model)])
    model.eval()


def _check(task: Task, how: Shrinking) -> None:
    problems = []
    if task.evaluate is None:
        problems.append("the task has no evaluate, by which a pruned model is judged")
    if how.steps and (task.loss is None or task.batches is None):
        problems.append("the task has no loss and batches, which training after each pruning takes")
    if problems:
        raise TaskError(*problems)
