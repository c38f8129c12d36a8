"""A Gaussian process for few, noisy values (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006).

Shapes: N observations, M points to predict at, D features.
"""

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import OptimizeResult, minimize

Array = NDArray[np.float64]

_JITTER = 1e-8

_LENGTH = (log(2.0), 1.0)
_COMMON_LENGTH = (log(1.0), 0.5)
_COMMON_SIGNAL = (0.0, 1.0)
_SIGNAL = (-1.5, 1.0)
_NOISE = (log(0.4), 0.7)
"""Mean and standard deviation of the log of each hyper-parameter, in units of the features and of the values' spread.

Features lie in 0 … 1, so that a length of 2 is a surface that hardly bends. With so few values a maximum of the
likelihood alone would often be a wild one.
"""

_SHARED, _OWN = 0.4, 0.4
"""Standard deviations of the log of a length that features of one kind share, and of what each of them adds to it."""

_ITERATIONS = 30


@dataclass(frozen=True, slots=True, eq=False)
class GaussianProcess:
    """A posterior over a smooth function.

    Attributes:
        points: (N, D), where it was observed.
        alike: how many of the features, the first ones, are of one kind.
        centre, scale: of the values.
        hyper: logs of the D lengths, of the common part's length, and of the variances of the common part, of the rest
            and of the noise, in scaled units.
        factor: (N, N) lower Cholesky factor of the observations' covariance.
        weights: (N,) that covariance, inverted, times the scaled values.
    """

    points: Array
    alike: int
    centre: float
    scale: float
    hyper: Array
    factor: Array
    weights: Array

    @classmethod
    def fit(cls, points: Array, values: Array, extra: Array | None = None, *, alike: int = 0) -> "GaussianProcess":
        """The most probable process under the priors.

        The sum of a common part, which knows the mean of the features that are alike and each of the others, and of a
        part that knows every feature, both with a Matérn 5/2 kernel; noise of one unknown variance on every value.
        Without the common part, three noisy values suffice for a belief that one site alone matters.

        Args:
            points: (N, D) features in 0 … 1.
            values: (N,) what was observed.
            extra: (N,) known variance of each value on top of the noise; none if ``None``.
            alike: how many of the features, the first ones, are of one kind, so that they are expected to matter alike.
        """
        centre, scale = float(values.mean()), spread(values)
        scaled = (values - centre) / scale
        beyond = np.zeros_like(values) if extra is None else extra / scale**2
        likelihood = _Likelihood(points, scaled, beyond, alike)
        found = min((likelihood.maximum(start) for start in likelihood.starts), key=lambda result: float(result.fun))
        factor = likelihood.factor(found.x)
        return cls(points, alike, centre, scale, found.x, factor, cho_solve((factor, True), scaled))

    @property
    def noise(self) -> float:
        """Standard deviation of the noise, in the values' unit."""
        return self.scale * sqrt(np.exp(self.hyper[-1]))

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function, without the noise, at (M, D) points: (M,) each."""
        across = _kernel(self.hyper, points, self.points, self.alike)
        mean = across @ self.weights
        explained = solve_triangular(self.factor, across.T, lower=True)
        variance = np.maximum(np.exp(self.hyper[-3:-1]).sum() - (explained**2).sum(0), 1e-12)
        return self.centre + self.scale * mean, self.scale * np.sqrt(variance)

    def expecting(self, points: Array) -> "GaussianProcess":
        """The process once (M, D) *points* more are observed, as it is expected: their values are what is believed now.

        The mean stays as it is, and the doubt near these points shrinks (Ginsbourger, Le Riche and Carraro, 2010).
        """
        every = np.vstack([self.points, points])
        covariance = _kernel(self.hyper, points, every, self.alike)
        across, among = np.split(covariance, [len(self.points)], axis=1)
        below = solve_triangular(self.factor, across.T, lower=True).T
        noise = (np.exp(self.hyper[-1]) + _JITTER) * np.eye(len(points))
        corner = cholesky(among + noise - below @ below.T, lower=True)
        factor = np.block([[self.factor, np.zeros_like(below.T)], [below, corner]])
        return replace(self, points=every, factor=factor, weights=np.append(self.weights, np.zeros(len(points))))


def spread(values: Array) -> float:
    """Standard deviation; of values that are all alike a millionth of their size, so that none promises anything."""
    return float(max(values.std(), 1e-6 * abs(values.mean()), 1e-12))


class _Likelihood:
    """Negative log of likelihood and priors, with its gradient."""

    def __init__(self, points: Array, values: Array, extra: Array, alike: int) -> None:
        features = points.shape[1]
        self.points, self.values, self.extra, self.alike = points, values, extra, alike
        priors = [*[_LENGTH] * features, _COMMON_LENGTH, _COMMON_SIGNAL, _SIGNAL, _NOISE]
        self.mean, deviations = np.array(priors).T
        apart = self.mean.copy()
        apart[-3:-1] = _SIGNAL[0], _COMMON_SIGNAL[0]  # else what is peculiar to one feature may pass for noise
        self.starts = (self.mean, apart)
        covariance = np.diag(deviations**2)
        covariance[:alike, :alike] = _SHARED**2 + _OWN**2 * np.eye(alike)
        self.precision = np.linalg.inv(covariance)
        lengths, signals = [(log(0.1), log(20.0))] * (features + 1), [(-5.0, 4.0)] * 2
        self.bounds = [*lengths, *signals, (log(1e-4), log(2.0))]

    def __call__(self, hyper: Array) -> tuple[float, Array]:
        common_signal, signal, noise = np.exp(hyper[-3:])
        common, every = _scaled(hyper, self.points, self.alike)
        near, far = _distances(common, common), _distances(every, every)
        alike, apart = common_signal * _matern(near), signal * _matern(far)
        factor = self._root(alike + apart, noise)
        weights = cho_solve((factor, True), self.values)
        off = hyper - self.mean
        pull = self.precision @ off
        value = 0.5 * self.values @ weights + np.log(np.diag(factor)).sum() + 0.5 * off @ pull
        outer = 0.5 * (cho_solve((factor, True), np.eye(len(weights))) - np.outer(weights, weights))
        gradient = np.empty_like(hyper)
        gradient[:-4] = _spreads(outer * signal * _slope(far), every)
        gradient[-4], *others = _spreads(outer * common_signal * _slope(near), common)
        gradient[self.alike : -4] += others
        gradient[-3] = (outer * alike).sum()
        gradient[-2] = (outer * apart).sum()
        gradient[-1] = noise * np.trace(outer)
        return float(value), gradient + pull

    def maximum(self, start: Array) -> OptimizeResult:
        """The nearest maximum of the posterior density, uphill from *start*."""
        return minimize(self, start, jac=True, method="L-BFGS-B", bounds=self.bounds, options={"maxiter": _ITERATIONS})

    def factor(self, hyper: Array) -> Array:
        """The lower Cholesky factor of the observations' covariance."""
        return self._root(_kernel(hyper, self.points, self.points, self.alike), np.exp(hyper[-1]))

    def _root(self, kernel: Array, noise: float) -> Array:
        found: Array = cholesky(kernel + np.diag(noise + self.extra + _JITTER), lower=True)
        return found


def _kernel(hyper: Array, left: Array, right: Array, alike: int) -> Array:
    """(M, N) covariance of the function at (M, D) and at (N, D) points."""
    common_signal, signal = np.exp(hyper[-3:-1])
    (common, every), (beside, others) = _scaled(hyper, left, alike), _scaled(hyper, right, alike)
    found: Array = common_signal * _matern(_distances(common, beside)) + signal * _matern(_distances(every, others))
    return found


def _scaled(hyper: Array, points: Array, alike: int) -> tuple[Array, Array]:
    """Points in units of the lengths: (N, 1 + D - alike) as the common part knows them, (N, D) all their features."""
    lengths, common_length = np.exp(hyper[:-4]), np.exp(hyper[-4])
    mean = points[:, :alike].sum(1, keepdims=True) / max(1, alike)
    scaled = points / lengths
    return np.hstack([mean / common_length, scaled[:, alike:]]), scaled


def _spreads(weights: Array, points: Array) -> Array:
    """(D,): for each feature the sum over all pairs of points, of (N, N) weights times squared differences."""
    found: Array = 2 * (weights.sum(0) @ points**2 - (points * (weights @ points)).sum(0))
    return found


def _distances(left: Array, right: Array) -> Array:
    """(M, N) Euclidean, of (M, D) and (N, D)."""
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    found: Array = np.sqrt(np.maximum(squares, 0.0))
    return found


def _matern(distances: Array) -> Array:
    found: Array = (1 + sqrt(5) * distances + 5 / 3 * distances**2) * np.exp(-sqrt(5) * distances)
    return found


def _slope(distances: Array) -> Array:
    """Minus the kernel's derivative, over the distance."""
    found: Array = 5 / 3 * (1 + sqrt(5) * distances) * np.exp(-sqrt(5) * distances)
    return found
