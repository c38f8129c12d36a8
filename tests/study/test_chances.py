"""How probably a plan is on the front."""

import pytest
from scipy.stats import norm

from headtune.study.chances import Seen, front_probabilities


def test_of_two_plans_that_cost_the_same_the_better_one_is_likelier_by_the_normal_distribution() -> None:
    better, worse = ([Seen(loss=loss, error=0.1), Seen(loss=5.0)] for loss in (1.0, 1.1))
    expected = norm.cdf(0.1 / 0.1 / 2**0.5)
    # A thousand draws: a standard error of 0.014.
    assert front_probabilities([better, worse]) == pytest.approx((expected, 1 - expected), abs=0.05)


def test_what_was_measured_once_for_two_plans_is_one_value() -> None:
    """One model with two learning rates: the latency is uncertain, and yet the same."""
    latency = Seen(loss=5.0, error=1.0)
    assert front_probabilities([[Seen(loss=1.0), latency], [Seen(loss=1.1), latency]]) == (1.0, 0.0)
    apart = front_probabilities([[Seen(loss=1.0), latency], [Seen(loss=1.1), Seen(loss=5.0, error=1.1)]])
    assert apart[1] == pytest.approx(0.5, abs=0.05)
