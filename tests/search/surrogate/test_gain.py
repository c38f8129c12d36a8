import numpy as np
import pytest

from headtune.pareto import Objective, hypervolume
from headtune.search.surrogate.gain import Point, expected_gain

LOSSES = (Objective(metric="quality", direction="minimize"), Objective(metric="cost", direction="minimize"))
REFERENCE = (2.0, 3.0)


def gain(mean: float, sd: float, cost: float, front: list[Point]) -> float:
    return float(expected_gain(np.array([mean]), np.array([sd]), np.array([cost]), front, REFERENCE)[0])


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_mean_growth_of_the_hypervolume(seed: int) -> None:
    rng = np.random.default_rng(seed)
    front = [(float(quality), float(cost)) for quality, cost in rng.uniform(0, 3, (seed, 2))]
    mean, sd, cost = float(rng.uniform(0, 2)), float(rng.uniform(0.1, 0.6)), float(rng.uniform(0, 3.2))
    before = hypervolume(front, LOSSES, REFERENCE) if front else 0.0
    drawn = mean + sd * rng.normal(size=4000)
    grown = [hypervolume([*front, (float(quality), cost)], LOSSES, REFERENCE) - before for quality in drawn]
    error = np.std(grown) / np.sqrt(len(grown))
    # Growth that 4,000 draws may miss altogether adds at most about a draw's share of the volume of 6.
    assert gain(mean, sd, cost, front) == pytest.approx(np.mean(grown), abs=4 * error + 6 / 4000)


def test_without_doubt_it_is_the_rectangle_that_is_added() -> None:
    front = [(1.0, 1.0)]
    assert gain(0.5, 1e-9, 2.0, front) == pytest.approx((1.0 - 0.5) * (3.0 - 2.0))
    assert gain(1.5, 1e-9, 0.5, front) == pytest.approx((2.0 - 1.5) * (1.0 - 0.5))
    assert gain(1.5, 1e-9, 2.0, front) == pytest.approx(0.0, abs=1e-8)
    assert gain(0.0, 1e-9, 3.5, front) == 0.0, "beyond the reference there is nothing to gain"


def test_with_one_objective_it_is_the_expected_improvement() -> None:
    """Mockus 1978: (best − mean) Φ(z) + sd φ(z); here at z = 0."""
    one = expected_gain(np.array([0.7]), np.array([0.3]), np.array([0.0]), [(0.7, 0.0)], (2.0, 1.0))
    assert one[0] == pytest.approx(0.3 / np.sqrt(2 * np.pi))
