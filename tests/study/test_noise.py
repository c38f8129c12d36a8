"""SeedNoise against closed forms and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headtune.study.noise import LEVEL, SeedNoise


def test_pooled_sd_is_the_root_of_the_mean_variance() -> None:
    rows = [(1.0, 3.0), (10.0, 14.0)]  # variances 2 and 8, one degree of freedom each
    noise = SeedNoise.of(rows)
    assert noise.freedom == 2
    assert noise.sd == pytest.approx(math.sqrt(5))


def test_rows_of_unlike_length_weigh_by_their_freedom() -> None:
    noise = SeedNoise.of([(0.0, 2.0), (0.0, 0.0, 3.0), (7.0,)])
    assert noise.freedom == 3
    assert noise.sd == pytest.approx(math.sqrt((2 + 6) / 3))


def test_two_plans_agree_with_the_two_sample_t_test() -> None:
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.5, 1.0, 2.0, 4.0):
        a, b = rng.normal(0, 1, 5).tolist(), rng.normal(shift, 1, 4).tolist()
        expected = stats.ttest_ind(a, b).pvalue < LEVEL
        assert SeedNoise.of([a, b]).differ(a, b) == expected


def test_one_seed_tells_nothing_apart() -> None:
    noise = SeedNoise.of([(0.1,), (0.9,)])
    assert noise.freedom == 0
    assert not noise.differ((0.1,), (0.9,))


def test_without_noise_any_gap_is_a_difference_and_equality_is_none() -> None:
    noise = SeedNoise.of([(1.0, 1.0), (2.0, 2.0)])
    assert noise.differ((1.0, 1.0), (2.0, 2.0))
    assert not noise.differ((1.0, 1.0), (1.0, 1.0))


def test_equal_plans_are_told_apart_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(1)
    repeats = 2000
    told = 0
    for _ in range(repeats):
        rows = rng.normal(0.9, 0.02, (6, 3))
        told += SeedNoise.of(rows.tolist()).differ(rows[0].tolist(), rows[1].tolist())
    # 4 standard errors of a binomial share of 0.05 in 2000 draws: 0.0195.
    assert abs(told / repeats - LEVEL) < 0.0195


@given(st.floats(-1e300, 1e300), st.integers(2, 9), st.integers(2, 9))
def test_equal_values_have_no_noise_and_never_differ(value: float, a: int, b: int) -> None:
    noise = SeedNoise.of([[value] * a, [value] * b])
    assert noise.sd == 0
    assert not noise.differ([value] * a, [value] * b)


def test_values_whose_sums_overflow_are_told_apart_or_not_but_never_nan() -> None:
    noise = SeedNoise.of([(1.0e308, 1.1e308, 0.9e308), (-1.0e308, -1.1e308, -0.9e308)])
    assert noise.sd == pytest.approx(1e307)
    assert noise.differ((1.0e308, 1.1e308), (-1.0e308, -1.1e308))
    assert not noise.differ((1.0e308, 1.1e308), (1.0e308, 1.1e308))
    wild = SeedNoise.of([(1.7e308, -1.7e308), (1.7e308, -1.7e308)])
    assert wild.sd == math.inf
    assert not wild.differ((1.7e308,), (-1.7e308,))


def test_where_nothing_is_trained_equal_means_exactly_equal() -> None:
    exact = SeedNoise.none()
    assert exact.differ((0.5,), (0.5 + 2**-53,))
    assert not exact.differ((0.5,), (0.5,))
    assert not exact.differ((), (0.5,))
