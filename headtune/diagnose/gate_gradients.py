"""The gradient of a gate on each head: to first order, what silencing the head changes.

H heads.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from headtune.diagnose.gated_loss import GatedLoss


def gate_gradients(loss: GatedLoss, batches: Iterable[Any]) -> dict[str, Tensor]:
    """The mean over batches of the absolute gradient of each gate, at 1: ``(H,)`` for each block, at least 0.

    References:
        Michel, Levy and Neubig, Are sixteen heads really better than one?, 2019, https://arxiv.org/abs/1905.10650
    """
    gates = loss.gates()
    sums = {path: gate * 0 for path, gate in gates.items()}
    count = 0
    for batch in batches:
        count += 1
        for path, gradient in loss.gradients(batch, gates).items():
            sums[path] += gradient.abs()
    return {path: total / count for path, total in sums.items()}
