"""How much the loss depends on each head: the gradient of a gate on its output.

H heads.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from headtune.diagnose.arguments import Batches, Loss, check_arguments, first_and_rest
from headtune.diagnose.blocks import blocks, wired
from headtune.diagnose.forward_inputs import forward_inputs
from headtune.errors import TaskError
from headtune.surgery import Inputs, gated
from headtune.surgery.refusals import check_workable
from headtune.surgery.snapshot import evaluating
from headtune.surgery.wiring import Wiring
from headtune.surgery.writing import values_kept


def importance(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    *,
    inputs: Inputs | None = None,
    paths: Iterable[str] | None = None,
) -> dict[str, Tensor]:
    """Score every head by how much the loss would change if its output were scaled.

    The score is the mean over batches of the absolute gradient of a gate on the head, which is 1: to first order what
    silencing the head changes (Are sixteen heads really better than one?, Michel et al. 2019). It compares heads of one
    block well, and heads of different blocks less so. The fewer examples a batch holds, the less do they cancel out.

    Args:
        model: runs in eval mode; it and its gradients are left as they were.
        batches: each counts alike; or a function that returns them.
        loss: ``(model, batch) -> scalar tensor``: how a batch enters the model.
        inputs: arguments of ``forward`` by which the heads are told apart; those of the first batch if ``None``.
        paths: the attention blocks to score; all of them if ``None``.

    Returns:
        Path of an attention block → float64 scores ``(H,)`` on the CPU, at least 0.

    Raises:
        InputError: an argument is of the wrong type (every one).
        TaskError: there is no batch, or the loss is no finite scalar that depends on the model.
        SurgeryError: a block is none, or its heads cannot be told apart (every reason).
    """
    check_workable(model)
    check_arguments("importance", batches, loss, paths, needs_loss=True)
    first, rest = first_and_rest("importance", batches)
    with torch.inference_mode(False), evaluating(model), values_kept(model):
        inputs = forward_inputs("importance", model, first, loss, instead="give inputs=…") if inputs is None else inputs
        sites = blocks(model, inputs, paths)
        wirings = wired(model, inputs, sites)
        gates = {site.path: torch.ones(site.num_heads, dtype=torch.float64, requires_grad=True) for site in sites}
        sums = {path: torch.zeros_like(gate, requires_grad=False) for path, gate in gates.items()}
        count = 0
        for batch in chain([first], rest):
            count += 1
            for path, gradient in _gradients(model, batch, loss, wirings, gates).items():
                sums[path] += gradient.abs()
    return {path: total / count for path, total in sums.items()}


def _gradients(
    model: nn.Module, batch: object, loss: Loss, wirings: Mapping[str, Wiring], gates: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The gradient of the loss of one batch with respect to each gate."""
    with torch.enable_grad(), gated(model, wirings, gates):
        value: object = loss(model, batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise TaskError(f"importance: loss returned {kind}; it must return a scalar tensor")
        if not bool(value.isfinite()):
            raise TaskError(f"importance: loss returned {value.item()}, of which there is no gradient")
        if not value.requires_grad:
            raise TaskError(
                "importance: what loss returned does not depend on the model's heads; "
                "compute it with gradients, without .item() or torch.no_grad()"
            )
        if _checkpointed(value):
            raise TaskError(
                "importance: the model checkpoints activations with use_reentrant=True, through which gates get no "
                "gradient; give it use_reentrant=False, or turn checkpointing off"
            )
        gradients = torch.autograd.grad(value, list(gates.values()), materialize_grads=True, allow_unused=True)
    return dict(zip(gates, gradients, strict=True))


def _checkpointed(value: Tensor) -> bool:
    """Whether a reentrant checkpoint is on the way back from *value*."""
    seen: set[Any] = set()
    rest = [value.grad_fn]
    while rest:
        node = rest.pop()
        if node is None or node in seen:
            continue
        if node.name() == "CheckpointFunctionBackward":
            return True
        seen.add(node)
        rest += [before for before, _ in node.next_functions]
    return False
