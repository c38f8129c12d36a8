import numpy as np
import pytest

from headtune.heads import AttentionSite, HeadPlan
from headtune.timing.prediction.estimate import Estimate, TimedPlan
from headtune.timing.prediction.features import features_of, matrix_of
from headtune.timing.prediction.regression import Fit, Regression, held_out

SITE = AttentionSite(path="a", role="self", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)


def timed(heads: int, ratio: float) -> TimedPlan:
    plan = HeadPlan.parse(f"a={heads}", [SITE], hold="head_dim")
    return TimedPlan(plan=plan, ratio=ratio, ratio_interval=(ratio, ratio))


def test_the_present_plan_is_one_whatever_was_measured() -> None:
    regression = Regression.fit([SITE], [timed(heads, 0.5 + heads / 16) for heads in (1, 3, 5, 7)])
    assert regression.predict(HeadPlan.present([SITE])).value == pytest.approx(1)  # shares add up to 1 by rounding


def test_noise_is_that_of_repeated_measurements_relative_to_the_ratio() -> None:
    generator = np.random.default_rng(0)
    ratios = {heads: 0.5 + heads / 16 for heads in (1, 2, 4, 6, 8)}
    repeats = [
        timed(heads, ratio * float(np.exp(0.03 * generator.normal())))
        for heads, ratio in ratios.items()
        for _ in range(20)
    ]
    # The standard deviation of 100 values is known to 7 %.
    assert Regression.fit([SITE], repeats).noise == pytest.approx(0.03, rel=0.25)


def test_measurements_of_a_held_out_plan_are_all_held_out() -> None:
    # Each plan lies off any line through the others; if one of its two equal measurements stayed in, it would be met.
    jagged = {1: 0.9, 2: 0.3, 4: 0.9, 6: 0.3, 7: 0.9}
    error = held_out([SITE], [[timed(heads, ratio) for heads, ratio in jagged.items() for _ in range(2)]])
    assert (error.plans, error.folds) == (10, 5)
    assert error.mape > 0.3


def test_an_estimate_in_another_unit() -> None:
    assert Estimate(value=0.5, interval=(0.25, 1.0)).times(4.0) == Estimate(value=2.0, interval=(1.0, 4.0))


def test_priors_that_disagree_widen_the_interval_by_how_far_they_lie_apart() -> None:
    features = features_of([SITE], [HeadPlan.parse("a=1", [SITE], hold="head_dim")])
    zeros = np.zeros(len(features))

    def fit(weight: float) -> Fit:
        weights = zeros.copy()
        weights[0] = weight
        return Fit(prior=zeros + 1, weights=weights, covariance=np.diag(zeros), noise=0.0, freedom=1e9, evidence=0.0)

    both = Regression(
        features=features,
        present=HeadPlan.present([SITE]),
        fits=(fit(0.1), fit(0.3)),
        shares=np.array([0.5, 0.5]),
    )
    plan = HeadPlan.parse("a=1", [SITE], hold="head_dim")
    step = float(matrix_of(features[:1], [plan], HeadPlan.present([SITE]))[0, 0])
    found = both.predict(plan)
    assert found.value == pytest.approx(1 + 0.2 * step)
    # Half of them lie 0.1 above and half 0.1 below the mean; without any noise that is all of the spread.
    assert found.interval == pytest.approx((1 + 0.2 * step - 0.196, 1 + 0.2 * step + 0.196), abs=1e-3)


def test_a_few_plans_that_lie_on_a_line_by_luck_are_no_surer_than_they_say() -> None:
    def width(told: float) -> float:
        """Of the interval of a head's cost, where each of four plans says *told* of its own relative noise."""
        ratios = {heads: 0.5 + heads / 16 for heads in (1, 3, 5, 7)}
        measured = [
            TimedPlan(
                plan=timed(heads, ratio).plan,
                ratio=ratio,
                ratio_interval=(ratio * (1 - 1.96 * told), ratio * (1 + 1.96 * told)),
            )
            for heads, ratio in ratios.items()
        ]
        ends = [timed(heads, 1.0).plan for heads in (1, 7)]
        low, high = Regression.fit([SITE], measured).difference(*ends).interval
        return high - low

    # Four values known to 4 % each, from 0.56 to 0.94, leave the rise of 0.375 a standard deviation of about 0.04.
    assert width(0.0) < 0.02 < 0.05 < width(0.04)
