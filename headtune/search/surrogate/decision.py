"""What to train next, and how far: the step that promises most for the epochs that it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from headtune.pareto import Objective, hypervolume
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.features import candidates
from headtune.search.surrogate.gain import Point, expected_gain
from headtune.search.surrogate.outlook import Belief, Outlook, Seen
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

OPTION = 0.5
"""Share of the epochs after its pause that a new training is reckoned to cost: many are never gone on with."""

TRIFLE = 1e-3
"""An open training whose end promises less than this share of the front's hypervolume is left open for good."""

_LOSSES = (Objective(metric="quality", direction="minimize"), Objective(metric="cost", direction="minimize"))


@dataclass(frozen=True, slots=True)
class Move:
    """A training to begin, or one to go on with.

    Attributes:
        encoded: the combination.
        open_record: the paused trial; ``None`` for a new one.
        until: the report after which to pause; ``None`` to train to the end.
    """

    encoded: Encoded
    open_record: TrialRecord | None
    until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogate:
    """Expected hypervolume improvement per epoch, over trainings to begin and trainings to go on with.

    Args:
        codec: the combinations there are.
        goal: the quality objective.
        cost: the measured one; ``None`` where there is none.
        limits: names of the constraints.
        epochs: of a full training.
        pauses: reports after which a training pauses, ascending; none where trainings are not to be stopped.
    """

    codec: Codec
    goal: Objective
    cost: Objective | None
    limits: Sequence[str]
    epochs: int
    pauses: Sequence[int]

    def move(self, records: Sequence[TrialRecord], reference: Point, rng: Random, *, fresh: bool) -> Move | None:
        """The best move after *records*; ``None`` where none is left that promises anything.

        Args:
            records: every trial.
            reference: the hypervolume's reference point, as losses.
            rng: draws combinations where there are too many to list.
            fresh: whether a new training may be begun.
        """
        seen = [
            Seen(one, code) for one in records if (code := self.codec.encode(one.plan, one.params)) is not None
        ]
        outlook = Outlook(self.codec, self.goal, self.cost, self.limits, seen)
        if not outlook.finished:
            return self._blind(seen, rng) if fresh else None
        paused = [one for one in seen if one.record.outcome is Outcome.PAUSED]
        known = {tuple(one.encoded.items()) for one in seen}
        best = [one.encoded for one in outlook.finished]
        new = [code for code in candidates(self.codec, best, rng) if tuple(code.items()) not in known] if fresh else []
        standing = [one for one in seen if one.record.feasible and one.record.outcome in (None, Outcome.OK)]
        belief = outlook.of([*new, *(one.encoded for one in paused), *(one.encoded for one in standing)])
        ours = slice(len(new) + len(paused))
        front = list(self._points(belief, standing, first=len(new) + len(paused)))
        cost = belief.cost.copy()
        cost[len(new) : ours.stop] = [self._cost(one) for one in paused]
        gain = expected_gain(belief.quality[ours], belief.doubt[ours], cost[ours], front, reference)
        gain[: len(new)] *= belief.allowed[: len(new)]
        if not len(gain):
            return None
        price = [self._price(0)] * len(new) + [self._price(one.record.curve[-1][0]) for one in paused]
        pick = int(np.argmax(gain / np.array(price)))
        if pick < len(new):
            return Move(new[pick], None, self._pause_after(0))
        if not fresh and gain[pick] < TRIFLE * _volume(front, reference):
            return None
        record = paused[pick - len(new)].record
        return Move(paused[pick - len(new)].encoded, record, self._pause_after(record.curve[-1][0]))

    def _points(self, belief: Belief, standing: Sequence[Seen], *, first: int) -> list[Point]:
        """The front's points: what finished ones, and those that run, are believed to be worth."""
        believed = belief.quality[first:]
        costs = [self._cost(one, float(belief.cost[first + index])) for index, one in enumerate(standing)]
        return [(float(quality), cost) for quality, cost in zip(believed, costs, strict=True)]

    def _cost(self, one: Seen, otherwise: float = 0.0) -> float:
        if self.cost is None or self.cost.metric not in one.record.metrics:
            return otherwise
        return self.cost.loss(one.record.metrics[self.cost.metric])

    def _pause_after(self, step: int) -> int | None:
        return next((pause for pause in self.pauses if pause > step), None)

    def _price(self, step: int) -> float:
        """Epochs that a training at *step* is reckoned to cost still."""
        pause = self._pause_after(step) or self.epochs
        return max(pause - step, 0) + OPTION * (self.epochs - pause) or 1.0

    def _blind(self, seen: Sequence[Seen], rng: Random) -> Move | None:
        """Any combination that is new, while nothing is known."""
        known = {tuple(one.encoded.items()) for one in seen}
        new = [code for code in candidates(self.codec, [], rng) if tuple(code.items()) not in known]
        return Move(rng.choice(new), None, None) if new else None


def _volume(front: Sequence[Point], reference: Point) -> float:
    return hypervolume(front, _LOSSES, reference) if front else 0.0
