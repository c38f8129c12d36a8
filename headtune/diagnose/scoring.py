"""What each head is worth to the loss, by one of three criteria.

H heads.
"""

from collections.abc import Iterable
from typing import Literal, get_args

from torch import Tensor, nn

import headtune.rules as rules
from headtune.diagnose.arguments import Batches, Loss
from headtune.diagnose.gate_gradients import gate_gradients
from headtune.diagnose.gated_loss import gated_loss
from headtune.diagnose.l0_gates import l0_gates
from headtune.diagnose.leave_one_out import leave_one_out
from headtune.errors import InputError
from headtune.surgery import Inputs

By = Literal["gradient", "leave_one_out", "l0_gates"]


def importance(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    *,
    by: By = "gradient",
    inputs: Inputs | None = None,
    paths: Iterable[str] | None = None,
) -> dict[str, Tensor]:
    """Score every head by what it is worth to the loss; a greater score is worth more.

    - ``gradient``: the mean over batches of the absolute gradient of a gate on the head, which is 1: to first order
      what silencing the head changes (Michel et al. 2019). It compares heads of one block well, and heads of
      different blocks less so; the fewer examples a batch holds, the less do they cancel out. One backward pass a
      batch.
    - ``leave_one_out``: by how much the mean loss rises without the head; below 0, it does harm. One forward pass a
      batch for every head.
    - ``l0_gates``: for how much of a fit of gates the head stays open, while the price of an open one rises (Voita et
      al. 2019), from 0 to 1. It alone sees heads that make up for one another. Some hundred backward passes, whatever
      the number of batches, which are all held in memory.

    Heads make up for one another, so that scores hold for the model as it is: score again after each one that goes.

    Args:
        model: runs in eval mode; it and its gradients are left as they were.
        batches: each counts alike; or a function that returns them.
        loss: ``(model, batch) -> scalar tensor``: how a batch enters the model.
        by: the criterion.
        inputs: arguments of ``forward`` by which the heads are told apart; those of the first batch if ``None``.
        paths: the attention blocks to score; all of them if ``None``.

    Returns:
        Path of an attention block → float64 scores ``(H,)`` on the CPU.

    Raises:
        InputError: an argument is of the wrong type (every one).
        TaskError: there is no batch, or the loss is no finite scalar that depends on the model.
        SurgeryError: a block is none, or its heads cannot be told apart (every reason).
    """
    if problem := rules.broken({"by": (by, rules.one_of(get_args(By)))}):
        raise InputError(*(f"importance: {one}" for one in problem))
    with gated_loss(model, batches, loss, inputs, paths) as (function, given):
        if by == "gradient":
            return gate_gradients(function, given)
        return leave_one_out(function, given) if by == "leave_one_out" else l0_gates(function, list(given))
