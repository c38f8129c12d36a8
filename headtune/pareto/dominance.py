"""Which points are better than others in the sense of Pareto."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
import numpy.typing as npt

from headtune.errors import InputError
from headtune.pareto.objective import Objective

Losses = npt.NDArray[np.float64]
"""Values turned so that lower is better, shape (points, objectives)."""


def losses(values: Sequence[Sequence[float]], objectives: Sequence[Objective]) -> Losses:
    """The values of points, turned so that lower is better.

    Raises:
        InputError: lists every point with another number of values than there are objectives, and every value that is
            NaN or infinite: what diverged has no place among points that are compared.
    """
    problems = [
        f"point {number}: it has {len(point)} of {len(objectives)} values, one for each objective"
        for number, point in enumerate(values)
        if len(point) != len(objectives)
    ]
    problems += [
        f"point {number}: {objective.metric} is {value}; only finite numbers compare, so leave out what diverged"
        for number, point in enumerate(values)
        for objective, value in zip(objectives, point, strict=False)
        if not isfinite(value)
    ]
    if not objectives:
        problems.append("there is no objective; name at least one")
    if problems:
        raise InputError(*problems)
    turned = [[objective.loss(value) for objective, value in zip(objectives, point, strict=True)] for point in values]
    return np.array(turned, dtype=np.float64).reshape(len(values), len(objectives))


def dominates(a: Sequence[float], b: Sequence[float], objectives: Sequence[Objective]) -> bool:
    """Whether *a* is nowhere worse than *b* and somewhere better; of two equal points neither dominates.

    Raises:
        InputError: as for :func:`losses`.
    """
    loss_a, loss_b = losses([a, b], objectives)
    return bool((loss_a <= loss_b).all() and (loss_a < loss_b).any())


def non_dominated(values: Sequence[Sequence[float]], objectives: Sequence[Objective]) -> tuple[int, ...]:
    """Indices, ascending, of the points that no other point dominates; of equal points all stay or none.

    Raises:
        InputError: as for :func:`losses`.
    """
    every = losses(values, objectives)
    left = np.lexsort(every.T[::-1])  # the best in the first objective first, so that no later one dominates the first
    front = []
    while left.size:
        first, left = int(left[0]), left[1:]
        front.append(first)
        better, equal = every[left] < every[first], every[left] == every[first]
        left = left[better.any(axis=1) | equal.all(axis=1)]
    return tuple(sorted(front))
