"""Which heads of a trained model go next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from random import Random

from torch import nn

from headtune.heads import AttentionSite, HeadMask
from headtune.trial.keeping import rank_heads
from headtune.trial.prune_options import Order
from headtune.trial.task import Inputs, Task


@dataclass(slots=True)
class RemovalOrder:
    """Scores of the heads that are left, the least of which go next; comparable over sites.

    Args:
        task: its loss and batches score; without them, the norms of weights do.
        inputs: arguments of ``forward``, on the model's device.
        sites: those that lose heads.
        order: which heads go.
        seed: of the order at random.
    """

    task: Task
    inputs: Inputs
    sites: Sequence[AttentionSite]
    order: Order
    seed: int
    _first: Mapping[str, Mapping[int, float]] | None = None

    def scores(self, model: nn.Module, mask: HeadMask) -> dict[str, list[float]]:
        """Path → a score for each head that *model* has left, which are those of *mask*, in their order."""
        if self.order == "importance":
            return {path: list(found.values()) for path, found in self._scored(model, mask).items()}
        if self._first is None:
            self._first = self._scored(model, mask) if self.order == "once" else self._drawn(mask)
        return {path: [self._first[path][head] for head in kept] for path, kept in mask.kept}

    def _scored(self, model: nn.Module, mask: HeadMask) -> dict[str, dict[int, float]]:
        ranking = rank_heads(self.task, model, self.inputs, self.sites)
        return {path: dict(zip(kept, _shares(ranking.scores[path]), strict=True)) for path, kept in mask.kept}

    def _drawn(self, mask: HeadMask) -> dict[str, dict[int, float]]:
        rng = Random(self.seed)
        return {path: {head: rng.random() for head in kept} for path, kept in mask.kept}


def _shares(scores: Sequence[float]) -> list[float]:
    """Scores over their norm, which differs from layer to layer for reasons other than worth."""
    norm = hypot(*scores)
    return [score / norm if norm > 0 else 0.0 for score in scores]
