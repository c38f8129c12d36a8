"""How much each head can put out, by its weights alone.

H heads.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from headtune.diagnose.blocks import blocks, wired
from headtune.surgery import Inputs
from headtune.surgery.adapters.linears import is_conv1d
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.opening import opened
from headtune.surgery.snapshot import Snapshot
from headtune.surgery.wiring import Features


def norm_importance(model: nn.Module, inputs: Inputs, *, paths: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Score every head by the norms of its value and its output weights, multiplied: no data is needed.

    The product of the two Frobenius norms bounds what a head adds to the residual stream, and stays the same when one
    of them is scaled up and the other down. It knows nothing of what a head attends to; where there are data and a
    loss, :func:`importance` does.

    Args:
        model: left as it is.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        paths: the attention blocks to score; all of them if ``None``.

    Returns:
        Path of an attention block → float64 scores ``(H,)`` on the CPU, at least 0.

    Raises:
        SurgeryError: a block is none, or its heads cannot be told apart (every reason).
    """
    sites = blocks(model, inputs, paths)
    snapshot = Snapshot.of(model)
    try:
        edited = opened(model, sites)
        wirings = wired(edited, inputs, sites)
        return {
            path: torch.tensor(
                [
                    _norm(edited, v, made=True) * _norm(edited, out, made=False)
                    for v, out in zip(wiring.v, wiring.out, strict=True)
                ],
                dtype=torch.float64,
            )
            for path, wiring in wirings.items()
        }
    finally:
        snapshot.restore()


@torch.no_grad()
def _norm(model: nn.Module, features: Features, *, made: bool) -> float:
    """The norm of the weights that make, or read, the *features*."""
    squares = 0.0
    for name, indices in features.items():
        module = owner(model, name)[1]
        weight = model.get_parameter(name)
        dim = 0 if made != is_conv1d(module) else 1
        chosen = weight.index_select(dim, torch.tensor(sorted(indices), device=weight.device))
        squares += float(chosen.double().square().sum())
    return math.sqrt(squares)
