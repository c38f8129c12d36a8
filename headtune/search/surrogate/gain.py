"""How much a plan may add to a front of which everything but its quality is known.

Emmerich, Giannakoglou and Naujoks, Single- and multiobjective evolutionary optimization assisted by Gaussian random
field metamodels, 2006; with one of two objectives known, the integral over the other has a closed form.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from headtune.search.surrogate.gaussian_process import Array

Point = tuple[float, float]
"""Losses: quality and cost, both to be low."""


def expected_gain(mean: Array, sd: Array, cost: Array, front: Sequence[Point], reference: Point) -> Array:
    """Expected growth of the hypervolume below *reference* by each of M plans.

    Args:
        mean, sd: (M,) normal belief of each plan's loss in quality.
        cost: (M,) each plan's loss in the other objective.
        front: points that are there already, in any order; they may dominate each other.
        reference: the hypervolume's reference point.
    """
    quality, steps = reference[0], [(-np.inf, reference[0])]
    for loss, at in sorted(front, key=lambda point: point[1]):
        if loss < quality:
            quality = loss
            steps.append((at, quality))
    ends = [at for at, _ in steps[1:]] + [np.inf]
    gain = np.zeros_like(mean)
    for (begin, best), end in zip(steps, ends, strict=True):  # from begin to end, *best* is the best quality
        width = np.clip(min(end, reference[1]) - np.maximum(cost, begin), 0.0, None)
        z = (best - mean) / sd
        gain += width * ((best - mean) * norm.cdf(z) + sd * norm.pdf(z))
    return gain
