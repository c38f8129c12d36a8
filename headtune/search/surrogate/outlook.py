"""What the trials so far let one expect of every combination: its quality, its cost, whether it is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from headtune.pareto import Objective
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.curves import read_curves
from headtune.search.surrogate.features import features
from headtune.search.surrogate.gaussian_process import Array, GaussianProcess
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_FAILED = (Outcome.CRASHED, Outcome.OUT_OF_MEMORY, Outcome.DIVERGED)


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
    """

    codec: Codec
    goal: Objective
    cost: Objective | None
    limits: Sequence[str]
    seen: Sequence[Seen]

    @property
    def finished(self) -> list[Seen]:
        """Those that were trained to their end."""
        return [one for one in self.seen if one.record.outcome is Outcome.OK]

    def of(self, every: Sequence[Encoded]) -> Belief:
        """What is expected of *every* combination."""
        points = features(every, self.codec.distributions)
        quality, doubt = self._process().predict(points)
        cost = np.zeros(len(every)) if self.cost is None else self._cost(self.cost, points)
        allowed = np.ones(len(every))
        for name in self.limits:
            allowed *= self._chance(points, {one.record.number: one.record.violations.get(name) for one in self.seen})
        if any(one.record.outcome in _FAILED for one in self.seen):
            allowed *= self._chance(points, {one.record.number: _failure(one.record) for one in self.seen})
        return Belief(quality, doubt, cost, allowed)

    def quality(self, every: Sequence[Encoded]) -> Array:
        """(M,) expected loss in quality of *every* combination."""
        return self._process().predict(features(every, self.codec.distributions))[0]

    def _process(self) -> GaussianProcess:
        """Finished trainings as they ended, open ones as their curves foretell."""
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
        return GaussianProcess.fit(points, np.concatenate(values), np.concatenate(extra))

    def _open(self) -> dict[int, list[Seen]]:
        """Trainings that were begun and are not finished, by the last report of each."""
        groups: dict[int, list[Seen]] = {}
        for one in self.seen:
            if one.record.curve and one.record.outcome in (None, Outcome.PAUSED, Outcome.STOPPED):
                groups.setdefault(one.record.curve[-1][0], []).append(one)
        return groups

    def _at(self, one: Seen, step: int) -> float:
        return self.goal.loss(dict(one.record.curve)[step])

    def _cost(self, goal: Objective, points: Array) -> Array:
        known = [one for one in self.seen if goal.metric in one.record.metrics]
        values = np.array([goal.loss(one.record.metrics[goal.metric]) for one in known])
        return self._fitted(known, values).predict(points)[0]

    def _chance(self, points: Array, violations: Mapping[int, float | None]) -> Array:
        """Probability that a violation, known of some trials by their numbers, is none."""
        told = [(one, amount) for one in self.seen if (amount := violations[one.record.number]) is not None]
        if not told:
            return np.ones(len(points))
        mean, sd = self._fitted([one for one, _ in told], np.array([amount for _, amount in told])).predict(points)
        chance: Array = norm.cdf(-mean / sd)
        return chance

    def _fitted(self, seen: Sequence[Seen], values: Array) -> GaussianProcess:
        return GaussianProcess.fit(features([one.encoded for one in seen], self.codec.distributions), values)


def _failure(record: TrialRecord) -> float | None:
    """1 for a trial that failed, −1 for one that trained."""
    if record.outcome in _FAILED:
        return 1.0
    return -1.0 if record.outcome is not None and record.outcome.trained else None
