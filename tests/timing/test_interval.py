import random
from math import comb

import pytest

from headtune.timing.interval import FEWEST, median_interval


def exact_rank(n: int) -> int:
    """Largest k with P(Binomial(n, 1/2) < k) <= 2.5 %, in whole numbers."""
    k, below = 0, 0
    while 40 * (below + comb(n, k)) <= 2**n:
        below += comb(n, k)
        k += 1
    return k


@pytest.mark.parametrize("n", [*range(FEWEST, 130), 190, 267, 500, 1001, 1500])
def test_never_shorter_than_the_exact_binomial_interval_and_at_most_one_rank_longer(n: int) -> None:
    low, high = median_interval(range(1, n + 1))
    assert low in (exact_rank(n), exact_rank(n) - 1)
    assert high == n + 1 - low


def test_the_tabled_ranks_of_thirty_values() -> None:
    values = [float(v) for v in range(1, 31)]
    random.Random(1).shuffle(values)
    assert median_interval(values) == (10.0, 21.0)


@pytest.mark.parametrize("n", range(1, FEWEST))
def test_too_few_values_give_their_whole_range(n: int) -> None:
    assert median_interval(range(n)) == (0, n - 1)


def test_six_values_are_the_fewest_whose_range_covers_95_percent() -> None:
    assert 1 - 2 / 2**FEWEST >= 0.95 > 1 - 2 / 2 ** (FEWEST - 1)


def test_covers_the_median_of_a_distribution_without_a_mean() -> None:
    # A ratio of two normals is Cauchy with median 0. The wanted coverage is 95 %; four standard errors of 2000 draws
    # are 2 points, and the seed is fixed.
    generator, hits, runs = random.Random(0), 0, 2000
    for _ in range(runs):
        low, high = median_interval([generator.gauss(0, 1) / generator.gauss(0, 1) for _ in range(25)])
        hits += low <= 0 <= high
    assert 0.93 <= hits / runs <= 0.99


def test_the_callers_values_stay_in_their_order() -> None:
    values = [3.0, 1.0, 2.0]
    median_interval(values)
    assert values == [3.0, 1.0, 2.0]
