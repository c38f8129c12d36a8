"""The interval of a median, without an assumption about the noise."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

FEWEST = 6
"""Values from which on a 95 % interval of a median exists: 1 - 2 / 2**6 is 97 %, 1 - 2 / 2**5 only 94 %."""

_Z = NormalDist().inv_cdf(0.975)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median of at least one value, between two order statistics.

    It holds for independent values of any distribution, and it is deterministic (David and Nagaraja, *Order
    Statistics*, 2003, §7.1). Under :data:`FEWEST` values it is their whole range, which covers less than 95 %.
    """
    ordered = sorted(values)
    rank = max(_rank(len(ordered)), 1)
    return ordered[rank - 1], ordered[-rank]


def _rank(n: int) -> int:
    """How far from either end of *n* ordered values the interval begins: the binomial's 2.5 % point, as a normal's."""
    return int((n + 1 - _Z * sqrt(n)) / 2)
