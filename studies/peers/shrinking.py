"""The best estimate of many means that are each seen a few times, where a smooth surface explains most of them."""

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shrunk(values: Array, places: Array) -> Array:
    """(P,) estimates of P plans' means: each plan's own mean, drawn towards a quadratic surface as far as noise says.

    A mean keeps the share of its distance to the surface that is not noise: the variance of the means around it, less
    that of their noise, over the former (Fay and Herriot, Estimates of income for small places, 1979).

    Args:
        values: (P, S) one value per seed; what a seed adds to all plans is left out of the noise.
        places: (P, D) where the plans lie.
    """
    plans, seeds = values.shape
    means = values.mean(1)
    surface = _quadratic(places)
    fitted = surface @ np.linalg.lstsq(surface, means)[0]
    left = values - means[:, None] - values.mean(0)[None, :] + values.mean()
    noise = (left**2).sum() / ((plans - 1) * (seeds - 1)) / seeds
    around = ((means - fitted) ** 2).sum() / (plans - surface.shape[1])
    kept = max(0.0, 1 - noise / around)
    found: Array = fitted + kept * (means - fitted)
    return found


def _quadratic(places: Array) -> Array:
    """(P, 1 + D + D (D + 1) / 2): a constant, the places, their squares and products."""
    columns = [np.ones(len(places)), *places.T]
    columns += [places[:, i] * places[:, j] for i, j in combinations_with_replacement(range(places.shape[1]), 2)]
    return np.stack(columns, axis=1)
