"""Pruning as far as a goal asks."""

from collections.abc import Iterable, Iterator

from headtune.pareto import Objective
from headtune.trial.prune_options import PruneGoal
from headtune.trial.shrinking import PrunePoint, Shrunk


def met(goal: PruneGoal, point: PrunePoint, whole: PrunePoint, quality: Objective) -> bool:
    """Whether a point reaches the goal, or loses no more quality than is allowed.

    Args:
        goal: the target.
        point: of the curve.
        whole: its first one, of the whole model.
        quality: the objective that a loss of quality is about.
    """
    if goal.heads is not None:
        return point.heads <= goal.heads
    if goal.latency_ratio is not None:
        return point.latency is not None and point.latency.ratio_interval[1] <= goal.latency_ratio
    lost = quality.loss(point.quality[quality.metric]) - quality.loss(whole.quality[quality.metric])
    return lost <= (goal.quality_loss or 0)


def pursue(goal: PruneGoal, steps: Iterable[Shrunk], quality: Objective) -> Iterator[tuple[Shrunk, bool]]:
    """The *steps* as far as they are needed, the whole model first, each with whether it is what is wanted by now.

    The last one that is wanted is the result. To a goal of heads or latency that is the step that reaches it; of a loss
    of quality, the last before too much is lost.
    """
    whole: PrunePoint | None = None
    for step in steps:
        whole = whole or step.point
        wanted = met(goal, step.point, whole, quality)
        yield step, wanted
        if wanted != (goal.quality_loss is not None):
            return
