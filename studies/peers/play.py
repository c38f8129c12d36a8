"""Playing a search on a table: what it trains costs epochs, and what it claims is judged as it goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from world import World

LEVELS = (0.90, 0.95, 0.99)
"""Shares of the true hypervolume that a search is to reach."""


@dataclass
class Played:
    """What a search has spent, and what its claims were worth.

    Attributes:
        world: what it plays in.
        epochs: spent so far.
        reached: level → epochs that were spent when a claim was first worth it.
    """

    world: World
    epochs: int = 0
    reached: dict[float, int] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether every level is reached, so that there is nothing left to see."""
        return len(self.reached) == len(LEVELS)

    def claim(self, plans: Sequence[str]) -> None:
        """Judge what the search would claim now."""
        worth = self.world.worth(plans)
        for level in LEVELS:
            if worth >= level:
                self.reached.setdefault(level, self.epochs)


Search = Callable[[World, int, int, int], Played]
"""``(world, trials, concurrent, seed) -> what came of it``."""
