"""How good a set of points is as a whole: the hypervolume that it dominates, up to a reference point."""

import sys
from collections.abc import Sequence
from math import frexp, fsum, inf, ldexp

from headtune.errors import InputError
from headtune.pareto.dominance import losses
from headtune.pareto.objective import Objective

Point = tuple[float, ...]


def reference_point(values: Sequence[Sequence[float]], objectives: Sequence[Objective]) -> tuple[float, ...]:
    """The worst value of each objective among the points (their nadir), moved to the worse side by a tenth.

    A tenth of the objective's range among the points; of the worst value's size where the range is 0. It stays among
    the finite numbers.

    Raises:
        InputError: there is no point, or as for :func:`dominance.losses`.
    """
    if not values:
        raise InputError("a reference point needs at least one point; finish a baseline first")
    every = losses(values, objectives)
    worst, best = every.max(axis=0).tolist(), every.min(axis=0).tolist()
    return tuple(
        objective.loss(_beyond(bad, good)) for objective, bad, good in zip(objectives, worst, best, strict=True)
    )


def hypervolume(
    values: Sequence[Sequence[float]], objectives: Sequence[Objective], reference: Sequence[float]
) -> float:
    """The volume of what the points dominate and the reference bounds, in the product of the objectives' units.

    Exact for any number of objectives, by slicing along the last one (Zitzler 1999; While et al., 2006); n points in m
    objectives take time in the order of n ** (m - 1). A point that is not better than the reference in every objective
    adds nothing. A volume beyond the finite numbers is ``inf``.

    Raises:
        InputError: as for :func:`dominance.losses`, for the points and for the reference.
    """
    try:
        bound = tuple(losses([reference], objectives)[0].tolist())
    except InputError as error:
        raise InputError(*(problem.replace("point 0", "reference") for problem in error.problems)) from None
    points = {tuple(loss) for loss in losses(values, objectives).tolist()}
    inside = [point for point in points if all(at < end for at, end in zip(point, bound, strict=True))]
    # Scaled by powers of two, which rounds nothing, no difference and no product overflows.
    exponents = [frexp(max(map(abs, column)))[1] for column in zip(bound, *inside, strict=True)]
    volume = _volume([_scaled(point, exponents) for point in inside], _scaled(bound, exponents))
    try:
        return ldexp(volume, sum(exponents))
    except OverflowError:
        return inf


def _beyond(bad: float, good: float) -> float:
    """*bad*, moved away from *good* by a tenth of what lies between; halved first, since that may overflow."""
    step = 0.2 * (bad / 2 - good / 2)
    if bad + step == bad:  # there is no range, or one that rounding swallows
        step = 0.1 * abs(bad)
    return min(bad + step, sys.float_info.max)


def _scaled(point: Point, exponents: Sequence[int]) -> Point:
    return tuple(ldexp(at, -exponent) for at, exponent in zip(point, exponents, strict=True))


def _volume(points: Sequence[Point], bound: Point) -> float:
    """The volume between the points and *bound*, below which all of them lie."""
    if not points:
        return 0.0
    if len(bound) == 1:
        return bound[0] - min(points)[0]
    if len(bound) == 2:
        return _area(points, bound)
    *_, end = bound
    by_last = sorted(points, key=lambda point: point[-1])
    tops = [*(point[-1] for point in by_last[1:]), end]
    return fsum(
        (top - point[-1]) * _volume([below[:-1] for below in by_last[: number + 1]], bound[:-1])
        for number, (point, top) in enumerate(zip(by_last, tops, strict=True))
        if top > point[-1]
    )


def _area(points: Sequence[Point], bound: Point) -> float:
    """The two-dimensional case: a staircase, walked along the first objective."""
    steps = []
    low = bound[1]
    for first, second in sorted(points):
        if second < low:
            steps.append((bound[0] - first) * (low - second))
            low = second
    return fsum(steps)
