"""SeedNoise against closed forms, scipy and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headtune.study.noise import SeedNoise, gaps, means, threshold


def test_pooled_sd_is_the_root_of_the_mean_variance() -> None:
    noise = SeedNoise.of([(1.0, 3.0), (10.0, 14.0)])  # variances 2 and 8, one degree of freedom each
    assert noise.freedom == 2
    assert noise.sd == pytest.approx(math.sqrt(5))


def test_rows_of_unlike_length_weigh_by_their_freedom() -> None:
    noise = SeedNoise.of([(0.0, 2.0), (0.0, 0.0, 3.0), (7.0,), ()])
    assert noise.freedom == 3
    assert noise.sd == pytest.approx(math.sqrt((2 + 6) / 3))


def test_variances_that_scatter_no_more_than_equal_ones_would_are_pooled() -> None:
    noise = SeedNoise.of([(0.0, 1.0, 2.0), (5.0, 6.0, 7.0), (1.0, 2.5, 4.0)])
    assert noise.sds.tolist() == pytest.approx([noise.sd] * 3)
    assert noise.freedoms.tolist() == [6, 6, 6]


def test_two_alike_plans_agree_with_the_two_sample_t_test() -> None:
    for shift in (0.0, 0.5, 1.0, 2.0, 4.0):
        a, b = [0.0, 1.0, 2.0, 3.0, 4.0], [shift + value for value in (0.0, 1.0, 2.0, 4.0)]
        noise = SeedNoise.of([a, b])
        assert np.allclose(noise.sds, noise.sd)  # else it would be another test
        ratio = gaps([a, b])[0, 1] / noise.errors()[0, 1]
        assert noise.pair_freedoms()[0, 1] == 7
        assert ratio == pytest.approx(stats.ttest_ind(a, b).statistic)


def test_with_many_seeds_each_plan_has_its_own_spread_and_few_draw_it_to_the_pooled_one() -> None:
    rng = np.random.default_rng(1)
    true = np.array([0.1, 1.0, 1.0, 5.0])
    many = SeedNoise.of([rng.normal(0, sd, 400).tolist() for sd in true])
    assert many.sds[1:] == pytest.approx(true[1:], rel=0.1)
    few = SeedNoise.of([rng.normal(0, sd, 3).tolist() for sd in true])
    assert true[0] < few.sds[0] < few.sd < few.sds[3] < true[3]
    assert few.freedoms.max() <= few.freedom


def test_spreads_shrink_by_the_closed_form() -> None:
    rows = [(-1.0, 1.0), (-1.0, 1.0), (-1.0, 1.0), (-9.0, 9.0)]  # squares 2, 2, 2, 162; pooled 42
    ratios = np.array([2, 2, 2, 162]) / 42
    beyond = (((ratios - 1) ** 2 * 4 / 3) - 2).sum() / 12
    prior = 4 + 2 / beyond
    expected = (42 * (prior - 2) + np.array([2, 2, 2, 162])) / (prior + 1)
    assert SeedNoise.of(rows).sds ** 2 == pytest.approx(expected)


def test_students_t_is_scipys() -> None:
    freedoms = np.array([1.0, 2.5, 12.0, 300.0])
    for level in (0.05, 1e-3, 1e-6):
        assert threshold(freedoms, level) == pytest.approx(stats.t.isf(level / 2, freedoms), rel=1e-6)


def test_one_seed_has_no_noise_that_is_known() -> None:
    noise = SeedNoise.of([(0.1,), (0.9,)])
    assert noise.freedom == 0
    assert math.isnan(noise.sd)


@given(st.floats(-1e300, 1e300), st.integers(2, 9), st.integers(2, 9))
def test_equal_values_have_no_noise(value: float, a: int, b: int) -> None:
    noise = SeedNoise.of([[value] * a, [value] * b])
    assert noise.sd == pytest.approx(0, abs=abs(value) * 1e-15)


def test_values_whose_squares_overflow_have_a_noise() -> None:
    noise = SeedNoise.of([(1.0e308, 1.1e308, 0.9e308), (-1.0e308, -1.1e308, -0.9e308)])
    assert noise.sd == pytest.approx(1e307)
    assert np.isfinite(noise.errors()).all()


def test_the_mean_of_nothing_is_no_number() -> None:
    assert np.isnan(means([(), (1.0, 3.0)])).tolist() == [True, False]
