"""A person's loss as a function of gates on the heads.

H heads.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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

Gates = Mapping[str, Tensor]
"""Path of an attention block → ``(H,)``, a factor on the output of each head."""


@dataclass(frozen=True, slots=True)
class GatedLoss:
    """The loss of a model whose heads have gates.

    Attributes:
        heads: path of a gated block → H.
    """

    model: nn.Module
    loss: Loss
    wirings: Mapping[str, Wiring]
    heads: Mapping[str, int]

    def gates(self) -> dict[str, Tensor]:
        """Gates of 1, which change nothing, in float64 on the CPU."""
        return {path: torch.ones(heads, dtype=torch.float64) for path, heads in self.heads.items()}

    def value(self, batch: object, gates: Gates) -> float:
        """The loss of one batch.

        Raises:
            TaskError: it is no finite scalar.
        """
        with torch.no_grad(), gated(self.model, self.wirings, gates):
            return float(_checked(self.loss(self.model, batch)))

    def gradients(self, batch: object, gates: Gates) -> dict[str, Tensor]:
        """The gradient of the loss of one batch with respect to each gate.

        Raises:
            TaskError: the loss is no finite scalar that depends on the gates.
        """
        leaves = {path: gate.detach().requires_grad_() for path, gate in gates.items()}
        with torch.enable_grad(), gated(self.model, self.wirings, leaves):
            value = _checked(self.loss(self.model, batch))
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
            found = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True, allow_unused=True)
        return dict(zip(leaves, found, strict=True))


@contextmanager
def gated_loss(
    model: nn.Module, batches: Batches, loss: Loss, inputs: Inputs | None, paths: Iterable[str] | None
) -> Iterator[tuple[GatedLoss, Iterator[Any]]]:
    """The loss as a function of gates, and the batches, while the model is in eval mode; then it is as it was.

    Raises:
        InputError: an argument is of the wrong type (every one).
        TaskError: there is no batch.
        SurgeryError: a block is none, or its heads cannot be told apart (every reason).
    """
    check_workable(model)
    check_arguments("importance", batches, loss, paths, needs_loss=True)
    first, rest = first_and_rest("importance", batches)
    with torch.inference_mode(False), evaluating(model), values_kept(model):
        if inputs is None:
            inputs = forward_inputs("importance", model, first, loss, instead="give inputs=…")
        sites = blocks(model, inputs, paths)
        heads = {site.path: site.num_heads for site in sites}
        yield GatedLoss(model, loss, wired(model, inputs, sites), heads), chain([first], rest)


def _checked(value: object) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TaskError(f"importance: loss returned {kind}; it must return a scalar tensor")
    if not bool(value.isfinite()):
        raise TaskError(f"importance: loss returned {value.item()}, of which there is no gradient")
    return value


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
