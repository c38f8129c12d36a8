"""How far a trained model is to be pruned."""

from collections.abc import Iterable, Iterator
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

    def met(self, point: PrunePoint, whole: PrunePoint, quality: Objective) -> bool:
        """Whether a point reaches the goal, or loses no more quality than is allowed.

        Args:
            point: of the curve.
            whole: its first one, of the whole model.
            quality: the objective that a loss of quality is about.
        """
        if self.heads is not None:
            return point.heads <= self.heads
        if self.latency_ratio is not None:
            return point.latency is not None and point.latency.ratio_interval[1] <= self.latency_ratio
        lost = quality.loss(point.quality[quality.metric]) - quality.loss(whole.quality[quality.metric])
        return lost <= (self.quality_loss or 0)

    def follow(self, steps: Iterable[Shrunk], quality: Objective) -> Iterator[tuple[Shrunk, bool]]:
        """The *steps* as far as they are needed, the whole model first, each with whether it is what is wanted by now.

        The last one that is wanted is the result. To a goal of heads or latency that is the step that reaches it; of a
        loss of quality, the last before too much is lost.
        """
        whole: PrunePoint | None = None
        for step in steps:
            whole = whole or step.point
            met = self.met(step.point, whole, quality)
            yield step, met
            if met != (self.quality_loss is not None):
                return
