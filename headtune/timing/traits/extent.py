"""How far a site's module reaches: less than its attention, or more."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from headtune.surgery.inputs import Inputs
from headtune.surgery.located import survey
from headtune.surgery.probe import Projections

MOSTLY = 0.5
"""Other weights of a module, relative to its projections, from which on it is more than attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What belongs to the attention of some sites beside their modules, and what their modules hold beside it.

    Attributes:
        outputs: modules outside of the sites that project the outputs of their heads.
        more: sites whose module holds other layers too: a block whose own code computes its feed-forward layers.
    """

    outputs: tuple[str, ...]
    more: tuple[str, ...]


def attention_extent(model: nn.Module, inputs: Inputs, paths: Sequence[str]) -> Extent:
    """Where the attention of the sites ends, told by the weights that one watched pass projects with.

    Where the projections of a site cannot be told, its module is taken for its attention.

    Args:
        model: as for :func:`headtune.surgery.find_sites`, which finds the paths.
        inputs: likewise.
        paths: of attention sites.

    Raises:
        ForwardFailed: the model raised.
        SurgeryError: no attention was recognised.
    """
    blocks = survey(model, inputs).blocks
    found = {path: blocks[path].call.projections for path in paths if path in blocks}
    sizes = {name: weight.numel() for name, weight in model.named_parameters() if weight.dim() > 1}
    outputs = (
        name.rpartition(".")[0]
        for path, projections in found.items()
        for name in sorted(projections.out - {""})
        if not _inside(name, path)
    )
    return Extent(
        outputs=tuple(path for path in dict.fromkeys(outputs) if path),
        more=tuple(path for path, projections in found.items() if _more(path, projections, sizes)),
    )


def _more(path: str, projections: Projections, sizes: dict[str, int]) -> bool:
    named = projections.q | projections.k | projections.v | projections.out
    known = sum(sizes.get(name, 0) for name in named)
    inside = sum(size for name, size in sizes.items() if _inside(name, path) and name not in named)
    return bool(projections.q) and "" not in named and inside > MOSTLY * known


def _inside(name: str, path: str) -> bool:
    return not path or name.startswith(f"{path}.")
