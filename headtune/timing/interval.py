"""The interval of a median of values that were taken one after another."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FEWEST = 6
"""Values from which on a 95 % interval of a median exists: 1 - 2 / 2**6 is 97 %, 1 - 2 / 2**5 only 94 %."""

RESAMPLES = 400

_SEED = 0
_Z = NormalDist().inv_cdf(0.975)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median of at least one value; the same values give the same interval.

    By bootstrap, in which whole stretches of neighbouring values are drawn: a machine that is busy for a while makes
    neighbours alike, and values drawn one by one would claim a certainty that is not there (moving blocks; Künsch, *The
    Jackknife and the Bootstrap for General Stationary Observations*, 1989). Where that is narrower than the interval
    between two order statistics, which holds for independent values of any distribution (David and Nagaraja, *Order
    Statistics*, 2003, §7.1), as it is for few values, the latter's ends count. Under :data:`FEWEST` values it is their
    whole range, which covers less than 95 %.
    """
    given = np.sort(np.asarray(values, dtype=float))
    rank = max(_rank(len(given)), 1)
    low, high = given[rank - 1], given[-rank]
    if len(given) >= FEWEST:
        least, most = np.quantile(_medians(np.asarray(values, dtype=float)), (0.025, 0.975))
        low, high = min(low, least), max(high, most)
    return float(low), float(high)


def _rank(n: int) -> int:
    """How far from either end of *n* ordered values the interval begins: the binomial's 2.5 % point, as a normal's."""
    return int((n + 1 - _Z * sqrt(n)) / 2)


def _medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of each resample, in the order of drawing."""
    n = len(values)
    length = round(1.5 * n ** (1 / 3))
    blocks = -(-n // length)
    starts = np.random.default_rng(_SEED).integers(0, n, (RESAMPLES, blocks))
    # Stretches run on from the last value to the first: else those at the ends would be drawn less often.
    drawn = (starts[..., None] + np.arange(length)).reshape(RESAMPLES, -1)[:, :n] % n
    medians: NDArray[np.float64] = np.median(values[drawn], axis=1)
    return medians
