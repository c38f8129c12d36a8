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


@pytest.mark.parametrize("n", [*range(FEWEST, 60), 190, 500])
def test_never_shorter_than_the_exact_binomial_interval(n: int) -> None:
    low, high = median_interval(range(1, n + 1))
    assert low <= exact_rank(n)
    assert high >= n + 1 - exact_rank(n)


def test_the_tabled_ranks_of_thirty_values_that_are_as_good_as_independent() -> None:
    # The smoother of the bootstrap's ends may lie a rank further out; the seed is fixed.
    values = [float(v) for v in range(1, 31)]
    random.Random(1).shuffle(values)
    low, high = median_interval(values)
    assert 8 <= low <= 10
    assert 21 <= high <= 23


def test_the_same_values_give_the_same_interval() -> None:
    values = [random.Random(2).random() for _ in range(50)]
    assert median_interval(values) == median_interval(list(values))


def neighbours_alike(n: int, generator: random.Random) -> list[float]:
    """Noise of a machine that is busy for a while: each value keeps 0.6 of the one before; the median is 0."""
    noise, values = 0.0, []
    for _ in range(n + 20):
        noise = 0.6 * noise + generator.gauss(0, 1)
        values.append(noise)
    return values[20:]


def test_neighbours_that_are_alike_widen_it() -> None:
    # The interval between order statistics takes the values for independent and covers this median in 7 of 10 runs.
    generator, runs = random.Random(0), 400
    wide = plain = 0
    for _ in range(runs):
        values = neighbours_alike(100, generator)
        low, high = median_interval(values)
        wide += low <= 0 <= high
        ordered, rank = sorted(values), exact_rank(100)
        plain += ordered[rank - 1] <= 0 <= ordered[-rank]
    assert plain / runs < 0.78
    assert wide / runs > 0.84


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
    assert 0.93 <= hits / runs <= 0.995


def test_the_callers_values_stay_in_their_order() -> None:
    values = [3.0, 1.0, 2.0]
    median_interval(values)
    assert values == [3.0, 1.0, 2.0]
