"""Sites whose module holds more than attention: a block whose own code computes its feed-forward layers too."""

from collections.abc import Sequence

from torch import nn

from headtune.surgery.inputs import Inputs
from headtune.surgery.located import survey
from headtune.surgery.probe import Projections

MOSTLY = 0.5
"""Other weights of a module, relative to its projections, from which on it is more than attention."""


def holding_more(model: nn.Module, inputs: Inputs, paths: Sequence[str]) -> tuple[str, ...]:
    """Those of *paths* whose modules hold more weights than projections of queries, keys, values and outputs explain.

    Where the projections of a site cannot be told, it is taken for attention alone.

    Args:
        model: as for :func:`headtune.surgery.find_sites`, which finds the paths.
        inputs: likewise.
        paths: of attention sites.

    Raises:
        ForwardFailed: the model raised.
        SurgeryError: no attention was recognised.
    """
    blocks = survey(model, inputs).blocks
    sizes = {name: weight.numel() for name, weight in model.named_parameters() if weight.dim() > 1}
    return tuple(path for path in paths if path in blocks and _more(path, blocks[path].call.projections, sizes))


def _more(path: str, projections: Projections, sizes: dict[str, int]) -> bool:
    named = projections.q | projections.k | projections.v | projections.out
    known = sum(sizes.get(name, 0) for name in named)
    inside = sum(size for name, size in sizes.items() if not path or name.startswith(f"{path}."))
    return bool(projections.q) and "" not in named and inside - known > MOSTLY * known
