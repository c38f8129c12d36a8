"""What to train next: the plan that promises most."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from headtune.heads import HeadPlan
from headtune.pareto import Objective, reference_point
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.gain import Point, expected_gain
from headtune.search.surrogate.gaussian_process import Array
from headtune.search.surrogate.outlook import Outlook, Seen
from headtune.search.surrogate.untried import untried
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_LOSSES = (Objective(metric="quality", direction="minimize"), Objective(metric="cost", direction="minimize"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogate:
    """Expected hypervolume improvement over combinations that were never tried.

    Args:
        codec: the combinations there are.
        goal: the quality objective.
        cost: the measured one; ``None`` where there is none.
        limits: names of the constraints.
    """

    codec: Codec
    goal: Objective
    cost: Objective | None
    limits: Sequence[str]

    @classmethod
    def of(cls, codec: Codec, objectives: Sequence[Objective], limits: Sequence[str]) -> "Surrogate | None":
        """The surrogate of a study; ``None`` where it has several quality objectives, or several measured ones."""
        qualities = [goal for goal in objectives if not goal.measured]
        costs = [goal for goal in objectives if goal.measured]
        if len(qualities) != 1 or len(costs) > 1:
            return None
        return cls(codec=codec, goal=qualities[0], cost=costs[0] if costs else None, limits=limits)

    def best(self, records: Sequence[TrialRecord], rng: Random, *, barred: Collection[HeadPlan]) -> Encoded | None:
        """The combination to train after *records*; ``None`` where every one was tried.

        Args:
            records: every trial.
            rng: draws combinations where there are too many to list.
            barred: plans that are not to be begun.
        """
        outlook = self._outlook(records)
        new = untried(outlook, barred, rng)
        if not new:
            return None
        return new[int(np.argmax(self._gains(outlook, new)))] if outlook.finished else rng.choice(new)

    def believed(self, records: Sequence[TrialRecord]) -> dict[int, float]:
        """Number of each finished trial in the space → its quality without the noise of its seed, as is believed."""
        outlook = self._outlook(records)
        if not outlook.finished:
            return {}
        losses = outlook.quality([one.encoded for one in outlook.finished]).tolist()
        return {one.record.number: self.goal.loss(loss) for one, loss in zip(outlook.finished, losses, strict=True)}

    def _outlook(self, records: Sequence[TrialRecord]) -> Outlook:
        seen = [Seen(one, code) for one in records if (code := self.codec.encode(one.plan, one.params)) is not None]
        present = HeadPlan.present(self.codec.sites)
        known = next((one.metrics for one in records if one.plan == present and one.metrics), {})
        return Outlook(self.codec, self.goal, self.cost, self.limits, seen, known)

    def _gains(self, outlook: Outlook, new: Sequence[Encoded]) -> Array:
        """(M,) what each of the *new* combinations is expected to add to the front's hypervolume.

        The front is that of the finished trials and of those that run, as they are believed to be: what a noisy value
        claims beyond that is not to be chased.
        """
        standing = [one for one in outlook.seen if one.record.feasible and one.record.outcome in (None, Outcome.OK)]
        belief = outlook.of([*new, *(one.encoded for one in standing)])
        known = [self._cost(one.record, guess) for one, guess in zip(standing, belief.cost[len(new) :], strict=True)]
        cost = np.array([*belief.cost[: len(new)], *known])
        ours, theirs = slice(len(new)), slice(len(new), None)
        front = list(zip(belief.quality[theirs].tolist(), known, strict=True))
        reference = self._reference(outlook, cost)
        gain = expected_gain(belief.quality[ours], belief.doubt[ours], cost[ours], front, reference)
        return gain * belief.allowed[ours]

    def _reference(self, outlook: Outlook, cost: Array) -> Point:
        """A tenth beyond the worst quality of the baselines and the highest cost of all."""
        first = [one for one in outlook.finished if one.record.kind == "baseline"] or outlook.finished
        quality = [self.goal.loss(one.record.metrics[self.goal.metric]) for one in first]
        corners = [(max(quality), float(cost.max())), (min(quality), float(cost.min()))]
        worst, dearest = reference_point(corners, _LOSSES)
        return worst, dearest if self.cost else 1.0  # without a cost, the hypervolume is the gain in quality

    def _cost(self, record: TrialRecord, guess: float) -> float:
        if self.cost is None or self.cost.metric not in record.metrics:
            return float(guess)
        return self.cost.loss(record.metrics[self.cost.metric])
