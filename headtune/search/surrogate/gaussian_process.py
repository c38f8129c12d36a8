"""A Gaussian process for few, noisy values (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006).

Shapes: N observations, M points to predict at, D features.
"""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

Array = NDArray[np.float64]

_JITTER = 1e-8

_LENGTH = (log(2.0), 1.0)
_SIGNAL = (0.0, 1.0)
_NOISE = (log(0.4), 0.7)
"""Mean and standard deviation of the log of each hyper-parameter, in units of the features and of the values' spread.

Features lie in 0 … 1, so that a length of 2 is a surface that hardly bends. With so few values a maximum of the
likelihood alone would often be a wild one.
"""

_COMMON, _OWN = 0.4, 0.4
"""Standard deviations of the log of a length that features of one kind share, and of what each of them adds to it.

Without the former, three noisy values suffice for a belief that one site alone matters.
"""

_ITERATIONS = 30


@dataclass(frozen=True, slots=True, eq=False)
class GaussianProcess:
    """A posterior over a smooth function.

    Attributes:
        points: (N, D), where it was observed.
        centre, scale: of the values.
        hyper: logs of the D lengths, of the signal's variance and of the noise's, in scaled units.
        factor: (N, N) lower Cholesky factor of the observations' covariance.
        weights: (N,) that covariance, inverted, times the scaled values.
    """

    points: Array
    centre: float
    scale: float
    hyper: Array
    factor: Array
    weights: Array

    @classmethod
    def fit(cls, points: Array, values: Array, extra: Array | None = None, *, alike: int = 0) -> "GaussianProcess":
        """The most probable process under the priors.

        Matérn 5/2 kernel with a length for each feature; noise of one unknown variance on every value.

        Args:
            points: (N, D) features in 0 … 1.
            values: (N,) what was observed.
            extra: (N,) known variance of each value on top of the noise; none if ``None``.
            alike: how many of the features, the first ones, are of one kind, so that their lengths are expected alike.
        """
        centre, scale = float(values.mean()), spread(values)
        scaled = (values - centre) / scale
        beyond = np.zeros_like(values) if extra is None else extra / scale**2
        likelihood = _Likelihood(points, scaled, beyond, alike)
        found = minimize(
            likelihood,
            likelihood.start,
            jac=True,
            method="L-BFGS-B",
            bounds=likelihood.bounds,
            options={"maxiter": _ITERATIONS},
        )
        factor = likelihood.factor(found.x)
        return cls(points, centre, scale, found.x, factor, cho_solve((factor, True), scaled))

    @property
    def noise(self) -> float:
        """Standard deviation of the noise, in the values' unit."""
        return self.scale * sqrt(np.exp(self.hyper[-1]))

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function, without the noise, at (M, D) points: (M,) each."""
        lengths, signal = np.exp(self.hyper[:-2]), np.exp(self.hyper[-2])
        across = signal * _matern(_distances(points / lengths, self.points / lengths))
        mean = across @ self.weights
        explained = solve_triangular(self.factor, across.T, lower=True)
        variance = np.maximum(signal - (explained**2).sum(0), 1e-12)
        return self.centre + self.scale * mean, self.scale * np.sqrt(variance)


def spread(values: Array) -> float:
    """Standard deviation; of values that are all alike a millionth of their size, so that none promises anything."""
    return float(max(values.std(), 1e-6 * abs(values.mean()), 1e-12))


class _Likelihood:
    """Negative log of likelihood and priors, with its gradient."""

    def __init__(self, points: Array, values: Array, extra: Array, alike: int) -> None:
        features = points.shape[1]
        self.values, self.extra = values, extra
        self.squares = (points[:, None, :] - points[None, :, :]) ** 2  # (N, N, D)
        self.start, deviations = np.array([*[_LENGTH] * features, _SIGNAL, _NOISE]).T
        covariance = np.diag(deviations**2)
        covariance[:alike, :alike] = _COMMON**2 + _OWN**2 * np.eye(alike)
        self.precision = np.linalg.inv(covariance)
        self.bounds = [*[(log(0.1), log(20.0))] * features, (-4.0, 4.0), (log(1e-4), log(2.0))]

    def __call__(self, hyper: Array) -> tuple[float, Array]:
        inverse_squares = np.exp(-2 * hyper[:-2])
        distances = np.sqrt((self.squares * inverse_squares).sum(-1))
        kernel = np.exp(hyper[-2]) * _matern(distances)
        factor = self.factor(hyper)
        weights = cho_solve((factor, True), self.values)
        off = hyper - self.start
        pull = self.precision @ off
        value = 0.5 * self.values @ weights + np.log(np.diag(factor)).sum() + 0.5 * off @ pull
        outer = 0.5 * (cho_solve((factor, True), np.eye(len(weights))) - np.outer(weights, weights))
        slope = np.exp(hyper[-2]) * 5 / 3 * (1 + sqrt(5) * distances) * np.exp(-sqrt(5) * distances)
        gradient = np.empty_like(hyper)
        gradient[:-2] = np.einsum("ij,ijk->k", outer * slope, self.squares) * inverse_squares
        gradient[-2] = (outer * kernel).sum()
        gradient[-1] = np.trace(outer) * np.exp(hyper[-1])
        return float(value), gradient + pull

    def factor(self, hyper: Array) -> Array:
        """The lower Cholesky factor of the observations' covariance."""
        distances = np.sqrt((self.squares * np.exp(-2 * hyper[:-2])).sum(-1))
        noise = np.exp(hyper[-1]) + self.extra + _JITTER
        found: Array = cholesky(np.exp(hyper[-2]) * _matern(distances) + np.diag(noise), lower=True)
        return found


def _distances(left: Array, right: Array) -> Array:
    """(M, N) Euclidean, of (M, D) and (N, D)."""
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    found: Array = np.sqrt(np.maximum(squares, 0.0))
    return found


def _matern(distances: Array) -> Array:
    found: Array = (1 + sqrt(5) * distances + 5 / 3 * distances**2) * np.exp(-sqrt(5) * distances)
    return found
