"""A model before surgery."""

from functools import cached_property

from torch import nn

from headtune.heads.site import AttentionSite
from headtune.surgery.find import surveyed
from headtune.surgery.inputs import Inputs
from headtune.surgery.located import Survey
from headtune.surgery.probe import Projections


class Original:
    """A model before surgery, watched when something must be known about it, and at most once."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self.model = model
        self.inputs = inputs

    @cached_property
    def survey(self) -> Survey:
        """What one forward pass found.

        Raises:
            SurgeryError: as :func:`headtune.surgery.find_sites` does.
        """
        return surveyed(self.model, self.inputs)

    @property
    def sites(self) -> tuple[AttentionSite, ...]:
        """Its attention blocks."""
        return tuple(block.site for block in self.survey.blocks.values())

    def scale(self, path: str) -> float:
        """What multiplies the scores of the block at *path*."""
        return self.survey.blocks[path].call.scale

    def rotated(self, path: str) -> int:
        """How many features of a head the positions rotate in the block at *path*; 0 for none."""
        return self.survey.blocks[path].call.rotated

    def projections(self, path: str) -> Projections:
        """The projections of the block at *path*."""
        return self.survey.blocks[path].call.projections
