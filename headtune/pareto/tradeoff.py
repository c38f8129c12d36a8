"""The one point of a front that a person would start from."""

from collections.abc import Sequence

from headtune.errors import InputError
from headtune.pareto.dominance import losses, non_dominated
from headtune.pareto.objective import Objective

_DIGITS = 12


def knee(values: Sequence[Sequence[float]], objectives: Sequence[Objective]) -> int:
    """Index of the point that lies farthest from the chord between the ends of the front, on the better side.

    Each objective is scaled so that the front goes from 0 to 1 (an objective that is equal everywhere counts 0). In two
    objectives that is the distance to the line through the two ends (Das, 1999); in more, to the plane through the
    corners of the scaled axes. Distances equal to 12 digits are ties; of a tie the point that is better in the first
    objective is taken, then in the second and so on, then the earliest. Where the front has fewer than three different
    points, the one best in the first objective is taken.

    Raises:
        InputError: there is no point, or as for :func:`dominance.losses`.
    """
    if not values:
        raise InputError("an empty front has no knee")
    front = non_dominated(values, objectives)
    loss = losses([values[index] for index in front], objectives)
    half = loss / 2  # so that no difference overflows
    span = half.max(axis=0) - half.min(axis=0)
    scaled = (half - half.min(axis=0)) / [width or 1.0 for width in span]
    few = len({tuple(point) for point in loss.tolist()}) < 3
    # The distance to the chord falls by the same amount wherever the sum of the scaled losses grows by one.
    remoteness = [0.0 if few else round(float(point.sum()), _DIGITS) for point in scaled]
    best = min(range(len(front)), key=lambda at: (remoteness[at], *loss[at].tolist(), front[at]))
    return front[best]
