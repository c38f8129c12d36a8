"""How far a trained model is to be pruned."""

from collections.abc import Iterable
from dataclasses import dataclass

from headtune.errors import InputError
from headtune.pareto import Objective
from headtune.trial.shrinking import PrunePoint, Shrunk


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneGoal:
    """One of three targets.

    Attributes:
        heads: at most so many are to be left.
        latency_ratio: the latency is to be at most this share of the whole model's, by the upper end of its interval.
        quality_loss: the quality may be worse by at most this, in the metric's unit; as many heads as can go.

    Raises:
        InputError: none of them is given, or several, or one is out of range.
    """

    heads: int | None = None
    latency_ratio: float | None = None
    quality_loss: float | None = None

    def __post_init__(self) -> None:
        given = {"heads": self.heads, "latency_ratio": self.latency_ratio, "quality_loss": self.quality_loss}
        named = {name: value for name, value in given.items() if value is not None}
        problems = []
        if len(named) != 1:
            came = ", ".join(named) or "none"
            problems.append(f"a pruning has one goal: heads, latency_ratio or quality_loss (got {came})")
        if self.heads is not None and self.heads < 1:
            problems.append(f"heads: must be 1 or more (got {self.heads})")
        if self.latency_ratio is not None and not 0 < self.latency_ratio < 1:
            problems.append(f"latency_ratio: must be above 0 and below 1 (got {self.latency_ratio})")
        if self.quality_loss is not None and not self.quality_loss >= 0:
            problems.append(f"quality_loss: must be 0 or more (got {self.quality_loss})")
        if problems:
            raise InputError(*problems)

    def pursue(self, steps: Iterable[Shrunk], quality: Objective) -> tuple[tuple[PrunePoint, ...], Shrunk | None]:
        """Go through *steps* until it is reached, or for a loss of quality, as long as it is kept.

        Args:
            steps: of a pruning, the whole model first.
            quality: the objective that a loss of quality is about.

        Returns:
            Every point that was seen; and the step that is wanted, ``None`` where none gets there.
        """
        points: list[PrunePoint] = []
        found: Shrunk | None = None
        for step in steps:
            points.append(step.point)
            if self.quality_loss is not None:
                lost = [quality.loss(point.quality[quality.metric]) for point in (points[-1], points[0])]
                if lost[0] - lost[1] > self.quality_loss:
                    break
                found = step
            elif self._reached(step.point):
                return tuple(points), step
        return tuple(points), found

    def _reached(self, point: PrunePoint) -> bool:
        if self.heads is not None:
            return point.heads <= self.heads
        return point.latency is not None and point.latency.ratio_interval[1] <= (self.latency_ratio or 0)
