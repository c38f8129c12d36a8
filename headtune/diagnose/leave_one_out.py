"""What the loss becomes when one head at a time says nothing.

H heads.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from headtune.diagnose.gated_loss import GatedLoss


def leave_one_out(loss: GatedLoss, batches: Iterable[Any]) -> dict[str, Tensor]:
    """By how much the mean loss rises without each head: ``(H,)`` for each block, below 0 for one that does harm.

    Every batch is gone through once for each head, and once with all of them.
    """
    whole = loss.gates()
    rises = {path: gate * 0 for path, gate in whole.items()}
    count = 0
    for batch in batches:
        count += 1
        before = loss.value(batch, whole)
        for path, gate in whole.items():
            for head in range(len(gate)):
                without = gate.clone()
                without[head] = 0
                rises[path][head] += loss.value(batch, {**whole, path: without}) - before
    return {path: rise / count for path, rise in rises.items()}
