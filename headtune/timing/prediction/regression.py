"""Bayesian linear regression of latency ratios on the features of plans, at one sequence length.

R plans, P features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.linear_model import BayesianRidge

from headtune.heads import AttentionSite, HeadPlan
from headtune.timing.prediction.estimate import Estimate, HeldOutError, TimedPlan
from headtune.timing.prediction.features import Array, Feature, features_of, matrix_of

FOLDS = 10
_LEAST_ERROR = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regression:
    """A fitted regression: ratio − 1 = features · weights, with noise in proportion to the ratio.

    Attributes:
        features: the columns.
        present: the plan whose features are 0 and whose ratio is 1.
        weights: posterior mean, (P,).
        covariance: of the posterior, (P, P).
        noise: standard deviation of a measured ratio, relative to it.
        freedom: plans less the weights that the data really determine.
    """

    features: tuple[Feature, ...]
    present: HeadPlan
    weights: Array
    covariance: Array
    noise: float
    freedom: float

    @classmethod
    def fit(cls, sites: Sequence[AttentionSite], timed: Sequence[TimedPlan]) -> "Regression":
        """The regression of the given plans, all of one length."""
        plans, present = [one.plan for one in timed], HeadPlan.present(sites)
        ratios_R = np.array([one.ratio for one in timed])
        features = features_of(sites, plans)
        # Noise grows with the latency: in units of each plan's own it is alike for all.
        rows_RP = matrix_of(features, plans, present) / ratios_R[:, None]
        ridge = BayesianRidge(fit_intercept=False, compute_score=False, max_iter=1000, tol=1e-6)
        ridge.fit(rows_RP, (ratios_R - 1) / ratios_R)
        determined = ridge.alpha_ * float(np.sum((rows_RP @ ridge.sigma_) * rows_RP))
        return cls(
            features=features,
            present=present,
            weights=ridge.coef_,
            covariance=ridge.sigma_,
            noise=max(float(ridge.alpha_) ** -0.5, _LEAST_ERROR),
            freedom=max(len(timed) - determined, 2.0),
        )

    def predict(self, plan: HeadPlan) -> Estimate:
        """The ratio of a plan, with the interval of one measurement of it."""
        row_P = self._row(plan)
        ratio = 1 + float(row_P @ self.weights)
        return self._around(ratio, float(row_P @ self.covariance @ row_P) + (self.noise * ratio) ** 2)

    def difference(self, low: HeadPlan, high: HeadPlan) -> Estimate:
        """By how much one plan's ratio exceeds another's, without the noise of measuring either."""
        row_P = self._row(high) - self._row(low)
        return self._around(float(row_P @ self.weights), float(row_P @ self.covariance @ row_P))

    def _row(self, plan: HeadPlan) -> Array:
        row_P: Array = matrix_of(self.features, [plan], self.present)[0]
        return row_P

    def _around(self, value: float, variance: float) -> Estimate:
        reach = float(stats.t.ppf(0.975, self.freedom)) * variance**0.5
        return Estimate(value=value, interval=(value - reach, value + reach))


def held_out(sites: Sequence[AttentionSite], by_length: Sequence[Sequence[TimedPlan]]) -> HeldOutError:
    """The error over plans, each predicted by a fit that knows none of its measurements."""
    measured, predicted, held = [], [], []
    fits = 0
    for timed in by_length:
        for train, test in _folds(timed):
            fits += 1
            regression = Regression.fit(sites, train)
            for one in test:
                estimate = regression.predict(one.plan)
                measured.append(one.ratio)
                predicted.append(estimate.value)
                held.append(estimate.interval[0] <= one.ratio <= estimate.interval[1])
    truth, guess = np.array(measured), np.array(predicted)
    varied = len(set(measured)) > 1 and len(set(predicted)) > 1
    return HeldOutError(
        mape=float(np.mean(np.abs(guess - truth) / truth)),
        spearman=float(stats.spearmanr(truth, guess).statistic) if varied else float("nan"),
        coverage=float(np.mean(held)),
        plans=len(measured),
        folds=fits,
    )


def _folds(timed: Sequence[TimedPlan]) -> Iterator[tuple[list[TimedPlan], list[TimedPlan]]]:
    """What is fitted on and what is predicted, plan by plan in turn; measurements of one plan stay together."""
    plans = list(dict.fromkeys(one.plan for one in timed))
    folds = min(FOLDS, len(plans))
    for fold in range(folds):
        test = set(plans[fold::folds])
        yield [one for one in timed if one.plan not in test], [one for one in timed if one.plan in test]
