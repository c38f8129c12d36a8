"""Gates that learn to close under a price on every open one.

H heads.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headtune.diagnose.gated_loss import GatedLoss

STEPS = 300
"""Of the fit, a batch each: enough for the price to rise slowly beside what a gate can move."""

_LR = 0.1

_TEMPERATURE, _LOW, _HIGH = 0.33, -0.1, 1.1
"""Of the hard concrete distribution, as in both papers."""

_DEAREST = 4.0
"""Times what a head is worth on average, the price at the end."""

_OPEN = 2.0
"""Where the gates begin: open with a probability of 0.95."""


def l0_gates(loss: GatedLoss, batches: Sequence[Any], steps: int = STEPS) -> dict[str, Tensor]:
    """For how much of a fit each head stays open, while the price of an open gate rises: ``(H,)`` each, 0 to 1.

    Each gate is drawn from a hard concrete distribution, and its logit learns to lower the loss and the expected number
    of open gates together; the model's weights stay as they are. The price rises from 0 to several times what a head is
    worth on average, which few heads are: they close in the order of what they are worth beside all that are open
    still, which scores one head at a time cannot tell.

    Args:
        loss: of the model.
        batches: gone through again and again.
        steps: of the fit.

    References:
        Louizos, Welling and Kingma, Learning sparse neural networks through L0 regularization, 2018,
        https://arxiv.org/abs/1712.01312; Voita et al., Analyzing multi-head self-attention, 2019,
        https://arxiv.org/abs/1905.09418
    """
    price = _DEAREST * _worth(loss, batches)
    logits = {path: torch.full_like(gate, _OPEN).requires_grad_() for path, gate in loss.gates().items()}
    optimizer = torch.optim.Adam(logits.values(), lr=_LR)
    generator = torch.Generator().manual_seed(0)
    kept = {path: torch.zeros_like(logit) for path, logit in logits.items()}
    for step in range(steps):
        with torch.enable_grad():
            gates = {path: _drawn(logit, generator) for path, logit in logits.items()}
            slopes = loss.gradients(batches[step % len(batches)], gates)
            open_gates = torch.stack([_opening(logit).sum() for logit in logits.values()]).sum()
            pull = torch.stack([(gates[path] * slope).sum() for path, slope in slopes.items()]).sum()
            optimizer.zero_grad()
            (pull + price * step / steps * open_gates).backward()
        optimizer.step()
        for path, logit in logits.items():
            kept[path] += _opening(logit.detach()) / steps
    return kept


def _worth(loss: GatedLoss, batches: Sequence[Any]) -> float:
    """By how much the mean loss rises for each head when all of them go."""
    every = loss.gates()
    none = {path: gate * 0 for path, gate in every.items()}
    rise = sum(loss.value(batch, none) - loss.value(batch, every) for batch in batches) / len(batches)
    return abs(rise) / sum(loss.heads.values())


def _drawn(logit: Tensor, generator: torch.Generator) -> Tensor:
    """A gate of each head, from 0 to 1, with a gradient to its logit."""
    noise = torch.rand(logit.shape, generator=generator, dtype=logit.dtype).clamp(1e-6, 1 - 1e-6)
    soft = torch.sigmoid((noise.logit() + logit) / _TEMPERATURE)
    return (soft * (_HIGH - _LOW) + _LOW).clamp(0, 1)


def _opening(logit: Tensor) -> Tensor:
    """The probability that a gate is not 0."""
    return torch.sigmoid(logit - _TEMPERATURE * math.log(-_LOW / _HIGH))
