"""The contract of an adapter: what one family of attention modules needs to change its head counts."""

from typing import Protocol

from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.probe import AttentionCall, Projections


class Adapter(Protocol):
    """Changes the head counts of one family of attention modules.

    Adapters have no state. ``why_not_rehead`` or ``why_not_resize`` says whether a change can work; ``rehead`` or
    ``resize`` then edits the model that they are given: a copy, or one whose old state is kept. Afterwards the model is
    watched again, so that an edit which runs but does not compute the asked counts is found and undone. An edit puts
    new parameters in the place of old ones and never writes into a tensor.
    """

    @property
    def reads_projections(self) -> bool:
        """Whether resizing needs to know which projections the probe saw."""

    def matches(self, module: nn.Module) -> bool:
        """Whether *module* is of this family."""

    def num_kv_heads(self, model: nn.Module, path: str, call: AttentionCall) -> int:
        """Key/value heads by the block's tensors: repeated keys hide them from the probe."""

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """Why the counts cannot change while every projection keeps its shape, as a sentence; None when they can."""

    def why_not_resize(
        self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount
    ) -> str | None:
        """Why the projections cannot change their shape, as a sentence; None when they can."""

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """Make the block compute with the wanted counts; every projection keeps its tensors."""

    def resize(self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount) -> nn.Module:
        """Give the block projections for the wanted counts; those whose shape changes are drawn anew.

        Returns:
            The edited model: *model*, or the new block where the model itself was the block.
        """

    def settle(self, model: nn.Module) -> None:
        """Mend what the whole model derives from its blocks' counts, after all edits."""
