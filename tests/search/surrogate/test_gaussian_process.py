from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad

from headtune.search.surrogate.gaussian_process import GaussianProcess, _Likelihood


def observed(count: int = 40, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    points = rng.random((count, 3))
    return points, surface(points) + noise * rng.normal(size=count)


def surface(points: np.ndarray) -> np.ndarray:
    """Bends along the first feature, rises along the second, does not know the third."""
    return np.asarray(np.sin(3 * points[:, 0]) + 0.5 * points[:, 1])


def test_the_gradient_is_that_of_the_likelihood() -> None:
    points, values = observed(12)
    likelihood = _Likelihood(points, values, np.linspace(0, 0.3, 12), alike=2)
    for seed in range(3):
        hyper = likelihood.mean + np.random.default_rng(seed).normal(size=7)
        numeric = check_grad(lambda at: likelihood(at)[0], lambda at: likelihood(at)[1], hyper)
        assert numeric < 1e-4 * max(1.0, float(np.linalg.norm(likelihood(hyper)[1])))  # steps of 1.5e-8


def test_the_posterior_is_the_text_book_formula() -> None:
    points, values = observed(10)
    extra = np.linspace(0, 0.2, 10)
    process = GaussianProcess.fit(points, values, extra, alike=2)
    lengths, (common_length, common, signal, noise) = np.exp(process.hyper[:-4]), np.exp(process.hyper[-4:])

    def matern(r: np.ndarray) -> np.ndarray:
        return np.asarray((1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r))

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = np.sqrt((((a[:, None] - b[None]) / lengths) ** 2).sum(-1))
        apart = (a[:, None, :2] - b[None, :, :2]).mean(-1) / common_length
        other = (a[:, None, 2] - b[None, :, 2]) / lengths[2]
        return np.asarray(common * matern(np.hypot(apart, other)) + signal * matern(r))

    scaled = (values - values.mean()) / values.std()
    inverse = np.linalg.inv(kernel(points, points) + np.diag(noise + extra / values.var()))
    new = np.random.default_rng(1).random((7, 3))
    across = kernel(new, points)
    mean, sd = process.predict(new)
    assert mean == pytest.approx(values.mean() + values.std() * across @ inverse @ scaled, rel=1e-4)
    variance = common + signal - np.einsum("ij,jk,ik->i", across, inverse, across)
    assert sd == pytest.approx(values.std() * np.sqrt(variance), rel=1e-3)  # a jitter of 1e-8 is added


def test_it_finds_a_planted_surface_and_its_noise() -> None:
    points, values = observed()
    process = GaussianProcess.fit(points, values)
    new = np.random.default_rng(2).random((200, 3))
    mean, sd = process.predict(new)
    off = mean - surface(new)
    assert np.sqrt((off**2).mean()) < 0.05, "closer than one noisy value would be"
    assert np.mean(np.abs(off) < 2 * sd) > 0.85
    assert 0.03 < process.noise < 0.08
    assert process.hyper[2] > max(process.hyper[:2]), "what does not matter has the longest length"


def test_a_value_that_is_known_badly_moves_little() -> None:
    points = np.linspace(0, 1, 40)[:, None]
    values = np.append(points[:-1, 0], 6.0)  # a line, and at its end an outlier
    extra = np.zeros(40)
    extra[-1] = 36.0
    trusting, doubting = GaussianProcess.fit(points, values), GaussianProcess.fit(points, values, extra)
    at = np.array([[1.0]])
    assert trusting.predict(at)[0][0] > 1.5
    assert doubting.predict(at)[0][0] == pytest.approx(1.0, abs=0.1)
    assert doubting.noise < 0.1 < trusting.noise + trusting.predict(at)[1][0]


def test_equal_values_and_a_single_one_are_no_problem() -> None:
    for count in (1, 5):
        points = np.random.default_rng(0).random((count, 2))
        mean, sd = GaussianProcess.fit(points, np.full(count, 3.0)).predict(points)
        assert mean == pytest.approx(3.0)
        assert np.isfinite(sd).all()


def test_features_of_one_kind_are_taken_to_matter_alike_until_they_are_seen_not_to() -> None:
    seen = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.2, 0.2]])
    lucky = np.array([0.0, 1.0, 0.9])  # as if the first feature explained it all
    new = np.array([[0.2, 1.0, 0.2], [1.0, 0.0, 0.0]])
    apart, together = (GaussianProcess.fit(seen, lucky, alike=alike).predict(new)[0] for alike in (0, 3))
    assert together[0] > apart[0] + 0.1, "another one of them does as much"
    rng = np.random.default_rng(3)
    points = rng.random((30, 3))
    values = np.sin(3 * points[:, 0]) + 0.05 * rng.normal(size=30)
    found = GaussianProcess.fit(points, values, alike=3)
    low, high = found.predict(np.array([[0.2, 0.9, 0.9], [0.5, 0.1, 0.1]]))[0]
    assert (low, high) == pytest.approx((np.sin(0.6), np.sin(1.5)), abs=0.15), "thirty values tell which one matters"


def test_what_is_expected_leaves_the_mean_and_takes_the_doubt() -> None:
    points, values = observed(12)
    extra = np.linspace(0, 0.3, 12)
    extra[-1] = 0.0
    soon, new = points[-1:], np.random.default_rng(1).random((7, 3))
    process = GaussianProcess.fit(points[:-1], values[:-1], extra[:-1], alike=2)
    expected = process.expecting(soon)
    assert expected.predict(new)[0] == pytest.approx(process.predict(new)[0], rel=1e-9)
    observed_there = replace(
        process,
        points=points,
        factor=_Likelihood(points, values, extra / process.scale**2, 2).factor(process.hyper),
    )
    assert expected.factor == pytest.approx(observed_there.factor, abs=1e-9), "as if it had been observed"
    assert expected.predict(soon)[1] < 0.9 * process.predict(soon)[1]
