"""Trained weights that are kept: which heads are worth most, and a model with the best of them left."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from headtune.diagnose import importance, norm_importance
from headtune.errors import TaskError
from headtune.heads import AttentionSite, HeadPlan, HeadRanking
from headtune.surgery import Inputs, merge_kv, prune
from headtune.surgery.transaction import copied
from headtune.trial.calling import calling
from headtune.trial.feeding import one_pass
from headtune.trial.fitting import to_device
from headtune.trial.task import Task

SCORED_BATCHES = 64
"""Batches by whose gradients heads are ranked: enough for the order to settle, whatever the size of the data."""


def kept_model(
    model: nn.Module, plan: HeadPlan, inputs: Inputs, ranking: HeadRanking, sites: Sequence[AttentionSite]
) -> nn.Module:
    """A copy of a trained *model* with the heads that *plan* keeps, the best by *ranking*.

    Heads are pruned first; where the plan has fewer key/value heads than are left then, these are merged.

    Args:
        model: left as it is: a person's function may return the same one each time.
        plan: counts for every site.
        inputs: arguments of ``forward``.
        ranking: of the heads of *sites*.
        sites: the model's.

    Raises:
        PlanError: trained heads cannot have these counts.
        SurgeryError: a block cannot lose heads, or the result computes something else.
    """
    mask = ranking.mask(plan, sites)
    pruned = mask.plan(sites)
    model = copied(model)
    if pruned != HeadPlan.present(sites):
        model = prune(model, mask, inputs, copy=False)
    return model if pruned == plan else merge_kv(model, plan, inputs, copy=False)


def rank_heads(task: Task, model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite]) -> HeadRanking:
    """The worth of every head of a trained *model*.

    By the gradients of their gates over the first batches of the task, where it has ``loss`` and ``batches``; else by
    the norms of their value and output weights.

    Args:
        task: the person's.
        model: on the device where it is to run.
        inputs: arguments of ``forward``.
        sites: the model's.

    Raises:
        TaskError: ``batches`` or ``loss`` failed, or gives no gradient or no number.
        SurgeryError: the heads of a block cannot be told apart (every reason).
    """
    device = next(model.parameters()).device
    paths = [site.path for site in sites]
    if task.loss is None or task.batches is None:
        scores = norm_importance(model, inputs, paths=paths)
        return HeadRanking(scores=_numbers(scores), criterion="norm")
    loss, batches = task.loss, task.batches
    scores = importance(
        model,
        (to_device(batch, device) for batch in islice(one_pass(batches), SCORED_BATCHES)),
        lambda model, batch: calling("loss", lambda: loss(model, batch)),
        inputs=inputs,
        paths=paths,
    )
    ranking = HeadRanking(scores=_numbers(scores), criterion="gradient")
    wild = [path for path, row in scores.items() if not bool(row.isfinite().all())]
    if wild:
        raise TaskError(f"task.loss: its gradient at the heads of {', '.join(wild)} is not finite; heads have no order")
    return ranking


def weight_digests(model: nn.Module) -> dict[str, str]:
    """Name → SHA-256 of the type, shape and bytes of every dense tensor in the state of *model*."""
    return {name: _digest(tensor) for name, tensor in _tensors(model).items()}


def kept_digest(model: nn.Module, other: Mapping[str, str], sites: Sequence[AttentionSite]) -> str:
    """One digest of the weights that are trained: those that the person's function returns whatever the seed.

    A head that is yet to be trained may be drawn anew each time; an attention block may not, since its own heads are
    ranked and kept.

    Args:
        model: what the function returned.
        other: :func:`weight_digests` of what it returned with another seed.
        sites: the model's.

    Raises:
        TaskError: a site holds nothing but what is drawn anew, or constant.
    """
    tensors, now = _tensors(model), weight_digests(model)
    kept = {name: digest for name, digest in now.items() if other.get(name) == digest}
    for site in sites:
        own = [name for name in tensors if name.startswith(f"{site.path}." if site.path else "")]
        telling = [name for name in own if not _constant(tensors[name])]
        if telling and not any(name in kept for name in telling):
            raise TaskError(
                f"task.model returns other weights each time it is called, as at {site.path or 'the model'}; load the "
                "checkpoint in it, or write `weights: fresh`"
            )
    return hashlib.sha256(json.dumps(sorted(kept.items())).encode()).hexdigest()


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Those of the state whose bytes are their values."""
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if type(tensor) is Tensor and tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_quantized)
    }


def _digest(tensor: Tensor) -> str:
    found = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    found.update(tensor.cpu().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


def _constant(tensor: Tensor) -> bool:
    """Whether its elements are all equal, as in biases that were never trained."""
    return tensor.numel() < 2 or bool((tensor == tensor.reshape(-1)[0]).all())


def _numbers(scores: dict[str, Tensor]) -> dict[str, tuple[float, ...]]:
    return {path: tuple(row.tolist()) for path, row in scores.items()}
