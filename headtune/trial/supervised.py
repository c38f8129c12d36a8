"""A ready-made training for a person who has a model, batches and a loss."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import headtune.rules as rules
from headtune.errors import TaskError
from headtune.trial.descent import FitOptions
from headtune.trial.fitting import Fit, Mode
from headtune.trial.task import Inputs, Task


def Supervised(  # noqa: N802 -- named as what it makes, like Task beside it
    *,
    model: Callable[..., nn.Module],
    inputs: Callable[[int, int | None], Inputs],
    batches: Callable[[], Iterable[Any]],
    loss: Callable[[nn.Module, Any], Tensor],
    evaluate: Callable[[nn.Module], Mapping[str, float]],
    monitor: str,
    mode: Mode,
    test: Callable[[nn.Module], Mapping[str, float]] | None = None,
    lr: float = 1e-3,
    weight_decay: float = 0.05,
    warmup: float = 0.1,
    clip: float = 1.0,
    autocast: torch.dtype | None = None,
    save_every_s: float = 10.0,
) -> Task:
    """A task whose ``train`` is built from *batches*, *loss* and *evaluate*.

    AdamW (Loshchilov and Hutter, 2019) that decays no vectors (norms, biases), a learning rate that rises in a line and
    falls as a cosine over ``run.epochs``, clipped gradients. Each epoch reports the mean ``train_loss`` and what
    *evaluate* says; the training ends with the weights of the epoch that was best by *monitor*.

    Where the study searches a param named ``lr``, ``weight_decay``, ``warmup`` or ``clip``, its value is taken, not the
    one given here. A training that was cut off goes on from its last checkpoint, and on a CPU ends with exactly the
    weights of one that was not, as long as *batches* draws from the global generators only.

    Args:
        model, inputs, test: as in ``Task``.
        batches: ``() -> iterable of the batches of one epoch``, counted by a pass of its own if it has no length.
            Their tensors, also in tuples, lists and dicts, are moved to ``run.device``.
        loss: ``(model, batch) -> scalar tensor``.
        evaluate: ``(model) -> {metric: value}``; called in eval mode, without gradients.
        monitor, mode: the metric of *evaluate* by which an epoch is best, and ``max`` or ``min``.
        lr, weight_decay: the peak learning rate; the decay of matrices.
        warmup: share of the steps in which the learning rate rises.
        clip: greatest norm of all gradients together.
        autocast: ``torch.bfloat16``, or ``torch.float16`` with loss scaling; ``None`` for neither.
        save_every_s: least seconds between checkpoints, which are written at the end of an epoch; 0 writes each time.

    Raises:
        TaskError: every option that is out of range.
    """
    if mode not in ("max", "min"):
        raise TaskError(f"Supervised: mode is max or min, got {mode!r}")
    if autocast not in (None, torch.bfloat16, torch.float16):
        raise TaskError(f"Supervised: autocast is torch.bfloat16, torch.float16 or None, got {autocast!r}")
    if rules.number(save_every_s) or save_every_s < 0:
        raise TaskError(f"Supervised: save_every_s must be 0 or more seconds, got {save_every_s!r}")
    train = Fit(
        batches=batches,
        loss=loss,
        evaluate=evaluate,
        monitor=monitor,
        mode=mode,
        options=FitOptions(lr=lr, weight_decay=weight_decay, warmup=warmup, clip=clip),
        autocast=autocast,
        save_every_s=save_every_s,
    )
    return Task(model=model, inputs=inputs, train=train, evaluate=evaluate, test=test, batches=batches, loss=loss)
