"""What the trials so far let one expect of every combination: its quality, its cost, whether it is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from headtune.pareto import Objective
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.curves import read_curves
from headtune.search.surrogate.features import features
from headtune.search.surrogate.forecast import forecast
from headtune.search.surrogate.gaussian_process import Array, GaussianProcess
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord


@dataclass(frozen=True, slots=True)
class Seen:
    """A trial and where it lies."""

    record: TrialRecord
    encoded: Encoded


@dataclass(frozen=True, slots=True)
class Belief:
    """What is expected of M combinations.

    Attributes:
        quality: (M,) loss in quality, without the noise of seeds.
        doubt: (M,) its standard deviation.
        cost: (M,) loss in the measured objective; 0 where there is none.
        allowed: (M,) probability that every constraint is met and that it trains at all.
    """

    quality: Array
    doubt: Array
    cost: Array
    allowed: Array


@dataclass(frozen=True, slots=True)
class Outlook:
    """The surrogate models of a search.

    Args:
        codec: the combinations there are.
        goal: the quality objective.
        cost: the measured one; ``None`` where there is none.
        limits: names of the constraints.
        seen: every trial inside the space.
        present: what was measured of the present plan, wherever it lies.
    """

    codec: Codec
    goal: Objective
    cost: Objective | None
    limits: Sequence[str]
    seen: Sequence[Seen]
    present: Mapping[str, float]

    @property
    def finished(self) -> list[Seen]:
        """Those that were trained to their end."""
        return [one for one in self.seen if one.record.outcome is Outcome.OK]

    def of(self, every: Sequence[Encoded]) -> Belief:
        """What is expected of *every* combination."""
        quality, doubt = self._process().predict(features(every, self.codec.distributions))
        cost = np.zeros(len(every))
        if self.cost is not None:
            cost = self._forecast(self.cost.metric, every)[0] * self.cost.loss(1.0)
        return Belief(quality, doubt, cost, self.allowed(every))

    def allowed(self, every: Sequence[Encoded]) -> Array:
        """(M,) probability that each combination meets every constraint and trains at all."""
        allowed = np.ones(len(every))
        for name in self.limits:
            allowed *= self._kept(name, every)
        if any(one.record.failed for one in self.seen):
            told = [(one.encoded, amount) for one in self.seen if (amount := _failure(one.record)) is not None]
            allowed *= _chance(*forecast(self.codec, told, None, every))
        return allowed

    def quality(self, every: Sequence[Encoded]) -> Array:
        """(M,) expected loss in quality of *every* combination."""
        return self._process().predict(features(every, self.codec.distributions))[0]

    def _process(self) -> GaussianProcess:
        """Finished trainings as they ended, open ones as their curves foretell; of running ones the end is expected."""
        whole, metric = self.finished, self.goal.metric
        rows = list(whole)
        values = [np.array([self.goal.loss(one.record.metrics[metric]) for one in whole])]
        extra = [np.zeros(len(whole))]
        for step, group in self._open().items():
            known = [one for one in whole if step in dict(one.record.curve)]
            if not known:
                continue
            read = read_curves(
                np.array([self._at(one, step) for one in known]),
                np.array([self.goal.loss(one.record.metrics[metric]) for one in known]),
                np.array([self._at(one, step) for one in group]),
            )
            rows, values, extra = rows + group, [*values, read.finals], [*extra, read.variances]
        points = features([one.encoded for one in rows], self.codec.distributions)
        found = GaussianProcess.fit(points, np.concatenate(values), np.concatenate(extra), alike=self.codec.dimensions)
        running = [one.encoded for one in self.seen if one.record.outcome is None]
        return found.expecting(features(running, self.codec.distributions)) if running else found

    def _open(self) -> dict[int, list[Seen]]:
        """Trainings that were begun and are not finished, by the last report of each."""
        groups: dict[int, list[Seen]] = {}
        for one in self.seen:
            if one.record.curve and one.record.outcome in (None, Outcome.STOPPED):
                groups.setdefault(one.record.curve[-1][0], []).append(one)
        return groups

    def _at(self, one: Seen, step: int) -> float:
        return self.goal.loss(dict(one.record.curve)[step])

    def _forecast(self, metric: str, every: Sequence[Encoded]) -> tuple[Array, Array]:
        known = [(one.encoded, one.record.metrics[metric]) for one in self.seen if metric in one.record.metrics]
        return forecast(self.codec, known, self.present.get(metric), every)

    def _kept(self, limit: str, every: Sequence[Encoded]) -> Array:
        """Probability that a limit is kept: its violation is the metric of its name less a constant, if it has one."""
        told = [one for one in self.seen if limit in one.record.violations]
        if not told:
            return np.ones(len(every))
        amounts = [one.record.violations[limit] for one in told]
        if not all(limit in one.record.metrics for one in told):
            known = list(zip((one.encoded for one in told), amounts, strict=True))
            return _chance(*forecast(self.codec, known, None, every))
        mean, sd = self._forecast(limit, every)
        beyond = [amount - one.record.metrics[limit] for one, amount in zip(told, amounts, strict=True)]
        return _chance(mean + np.mean(beyond), sd)


def _chance(violation: Array, sd: Array) -> Array:
    found: Array = norm.cdf(-violation / sd)
    return found


def _failure(record: TrialRecord) -> float | None:
    """1 for a trial that failed, −1 for one that trained."""
    if record.failed:
        return 1.0
    return -1.0 if record.trained else None
