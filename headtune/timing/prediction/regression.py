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
from headtune.timing.prediction.features import PRIORS, Array, Feature, features_of, matrix_of, prior_of

FOLDS = 10
_LEAST_ERROR = 1e-9

_WORTH = 2.0
"""How many plans' residuals the noise that measurements tell is worth: a few plans may lie on a line by luck."""

_INTERVAL_WIDTH = 2 * stats.norm.ppf(0.975)
"""Of a 95 % interval, in standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """One fitted regression: ratio − 1 = features · weights, with noise in proportion to the ratio.

    Attributes:
        prior: what the columns are multiplied by, (P,).
        weights: posterior mean, (P,).
        covariance: of the posterior, (P, P).
        noise: standard deviation of a measured ratio, relative to it.
        freedom: plans less the weights that the data really determine, and what the told noise is worth.
        evidence: logarithm of how probable the measurements are under it.
    """

    prior: Array
    weights: Array
    covariance: Array
    noise: float
    freedom: float
    evidence: float

    @classmethod
    def of(cls, columns_RP: Array, ratios_R: Array, prior: Array, told: float | None) -> "Fit":
        """The regression under a given prior; *told* is the noise that the measurements tell of themselves."""
        # Noise grows with the latency: in units of each plan's own it is alike for all.
        rows_RP = columns_RP * prior / ratios_R[:, None]
        known = {} if told is None else {"alpha_1": _WORTH / 2, "alpha_2": _WORTH / 2 * told**2}
        ridge = BayesianRidge(fit_intercept=False, compute_score=True, max_iter=1000, tol=1e-4, **known)
        ridge.fit(rows_RP, (ratios_R - 1) / ratios_R)
        determined = ridge.alpha_ * float(np.sum((rows_RP @ ridge.sigma_) * rows_RP))
        return cls(
            prior=prior,
            weights=ridge.coef_,
            covariance=ridge.sigma_,
            noise=max(float(ridge.alpha_) ** -0.5, _LEAST_ERROR),
            freedom=max(len(ratios_R) - determined + (0.0 if told is None else _WORTH), 2.0),
            evidence=float(ridge.scores_[-1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regression:
    """Regressions under several priors, each counted by how probable it makes the measurements (Bayesian averaging).

    Attributes:
        features: the columns.
        present: the plan whose features are 0 and whose ratio is 1.
        fits: one for each of the priors.
        shares: how much each counts, adding up to 1.
    """

    features: tuple[Feature, ...]
    present: HeadPlan
    fits: tuple[Fit, ...]
    shares: Array

    @classmethod
    def fit(cls, sites: Sequence[AttentionSite], timed: Sequence[TimedPlan]) -> "Regression":
        """The regressions of the given plans, all of one length."""
        plans, present = [one.plan for one in timed], HeadPlan.present(sites)
        features, ratios_R = features_of(sites, plans), np.array([one.ratio for one in timed])
        columns_RP = matrix_of(features, plans, present)
        told = _told_noise(timed)
        fits = tuple(Fit.of(columns_RP, ratios_R, prior_of(features, priors), told) for priors in PRIORS)
        evidence = np.array([fit.evidence for fit in fits])
        weights = np.exp(evidence - evidence.max())
        return cls(features=features, present=present, fits=fits, shares=weights / weights.sum())

    @property
    def noise(self) -> float:
        """Standard deviation of a measured ratio, relative to it."""
        return float(self.shares @ np.array([fit.noise for fit in self.fits]))

    def predict(self, plan: HeadPlan) -> Estimate:
        """The ratio of a plan, with the interval of one measurement of it."""
        around = self._effect(self.present, plan)
        return self._estimate(1 + around[0], around[1], noisy=True)

    def ratios(self, plans: Sequence[HeadPlan]) -> Array:
        """The ratio of each plan, at once."""
        columns = matrix_of(self.features, plans, self.present)
        effects = [
            share * (columns * fit.prior) @ fit.weights for share, fit in zip(self.shares, self.fits, strict=True)
        ]
        found: Array = 1 + np.sum(effects, axis=0)
        return found

    def difference(self, low: HeadPlan, high: HeadPlan) -> Estimate:
        """By how much one plan's ratio exceeds another's, without the noise of measuring either."""
        return self._estimate(*self._effect(low, high), noisy=False)

    def _effect(self, low: HeadPlan, high: HeadPlan) -> tuple[Array, Array]:
        """By fit: the difference between two plans, and its variance."""
        columns_2P = matrix_of(self.features, [low, high], self.present)
        rows = [(fit, (columns_2P[1] - columns_2P[0]) * fit.prior) for fit in self.fits]
        values = np.array([row_P @ fit.weights for fit, row_P in rows])
        variances = np.array([row_P @ fit.covariance @ row_P for fit, row_P in rows])
        return values, variances

    def _estimate(self, values: Array, variances: Array, *, noisy: bool) -> Estimate:
        value = float(self.shares @ values)
        noise = np.array([(fit.noise * value) ** 2 if noisy else 0.0 for fit in self.fits])
        spread = float(self.shares @ (variances + noise + (values - value) ** 2))
        freedom = float(self.shares @ np.array([fit.freedom for fit in self.fits]))
        reach = float(stats.t.ppf(0.975, freedom)) * spread**0.5
        return Estimate(value=value, interval=(value - reach, value + reach))


def _told_noise(timed: Sequence[TimedPlan]) -> float | None:
    """Relative standard deviation of a measured ratio by the measurements' own intervals; ``None`` without any."""
    widths = [(one.ratio_interval[1] - one.ratio_interval[0]) / one.ratio for one in timed]
    return float(np.sqrt(np.mean(np.square(widths)))) / _INTERVAL_WIDTH if any(widths) else None


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
