import numpy as np
import pytest

from headtune.search.surrogate.curves import CORRELATION, read_curves


def test_many_curves_on_a_line_are_read_along_it() -> None:
    at = np.linspace(1, 2, 200)
    read = read_curves(at, 3 * at - 1, np.array([1.2, 1.8]))
    assert read.finals == pytest.approx([2.6, 4.4], abs=0.02)  # the prior counts as 2 of 202
    assert (np.sqrt(read.variances) < 0.1).all()


def test_scatter_around_the_line_is_their_noise() -> None:
    rng = np.random.default_rng(0)
    at = rng.normal(size=500)
    read = read_curves(at, at + 0.5 * rng.normal(size=500), np.zeros(1))
    assert np.sqrt(read.variances[0]) == pytest.approx(0.5, rel=0.1)


def test_few_curves_are_read_as_a_usual_correlation_suggests() -> None:
    at, finals = np.array([1.0, 2.0]), np.array([5.0, 5.0 + 1e-9])
    flat = read_curves(at, finals, np.array([1.0]))
    assert flat.finals[0] == pytest.approx(5.0)
    one = read_curves(np.array([1.0]), np.array([5.0]), np.array([1.5]))
    assert one.finals[0] == pytest.approx(5.0 + CORRELATION * 0.5), "of one training neither spread is known: as if 1"
    assert one.variances[0] > 0


def test_far_from_what_was_seen_less_is_known() -> None:
    rng = np.random.default_rng(1)
    at = rng.normal(size=10)
    read = read_curves(at, at + 0.1 * rng.normal(size=10), np.array([at.mean(), at.mean() + 10]))
    assert read.variances[1] > 2 * read.variances[0]
