"""Combinations of plan and params as points of a cube."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from headtune.search.codec import Encoded
from headtune.search.surrogate.gaussian_process import Array


def features(every: Sequence[Encoded], distributions: Mapping[str, BaseDistribution]) -> Array:
    """(N, D) in 0 … 1: a count or a number by its place on its scale, a category by a one among noughts."""
    columns = [column for name in distributions for column in _columns(name, every, distributions[name])]
    return np.array(columns, dtype=np.float64).reshape(-1, len(every)).T


def _columns(name: str, every: Sequence[Encoded], distribution: BaseDistribution) -> list[list[float]]:
    values = [one[name] for one in every]
    match distribution:
        case CategoricalDistribution():
            return [[float(value == choice) for value in values] for choice in distribution.choices]
        case IntDistribution() | FloatDistribution():
            return [[_place(value, distribution) for value in values]]
    raise AssertionError(distribution)


def _place(value: Any, scale: IntDistribution | FloatDistribution) -> float:  # noqa: ANN401
    if scale.single():
        return 0.5
    low, high, at = (log(number) if scale.log else float(number) for number in (scale.low, scale.high, value))
    return (at - low) / (high - low)
