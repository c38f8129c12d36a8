"""Which plans are worth a training, by cheap scores of all."""

from collections.abc import Sequence

import numpy as np

from headtune.heads import HeadPlan
from headtune.pareto import Objective, non_dominated
from headtune.pareto.dominance import Losses, losses
from headtune.trial.plan_scores import PlanScore


def shortlist(scores: Sequence[PlanScore], objectives: Sequence[Objective]) -> tuple[HeadPlan, ...]:
    """The plans, the most worth a training first: the front of the scores, then the front of the rest, and so on.

    Of one front the best in the first objective is taken first, then always the plan that is farthest from those taken,
    each objective in units of the front's own range (Gonzalez, Clustering to minimize the maximum intercluster
    distance, 1985): however few are trained, they span it.

    Args:
        scores: of plans; those with a value that is not finite are left out.
        objectives: the study's.
    """
    rest = [(one.plan, values) for one in scores if (values := one.values(objectives))]
    found: list[HeadPlan] = []
    while rest:
        layer = [rest[at] for at in non_dominated([values for _, values in rest], objectives)]
        order = _spread(losses([values for _, values in layer], objectives))
        found += [layer[at][0] for at in order]
        taken = {plan for plan, _ in layer}
        rest = [(plan, values) for plan, values in rest if plan not in taken]
    return tuple(found)


def _spread(loss: Losses) -> list[int]:
    """Indices of points, each the farthest from those before it; the first is the best in the first objective."""
    scaled = (loss - loss.min(axis=0)) / np.where(np.ptp(loss, axis=0) > 0, np.ptp(loss, axis=0), 1.0)
    order = [int(np.lexsort(loss.T[::-1])[0])]
    distance = np.linalg.norm(scaled - scaled[order[0]], axis=1)
    distance[order[0]] = -1.0
    while len(order) < len(loss):
        farthest = int(distance.argmax())
        order.append(farthest)
        distance = np.minimum(distance, np.linalg.norm(scaled - scaled[farthest], axis=1))
        distance[farthest] = -1.0
    return order
