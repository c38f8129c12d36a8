"""What to train next, and how far: the step that promises most for the epochs that it costs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from headtune.heads import HeadPlan
from headtune.pareto import Objective, hypervolume, reference_point
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.gain import Point, expected_gain
from headtune.search.surrogate.gaussian_process import Array
from headtune.search.surrogate.outlook import Outlook, Seen
from headtune.search.surrogate.untried import untried
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

BLIND = 4
"""Trials at once from which on many are begun before anything is known of the others."""


def pauses_of(epochs: int, concurrent: int) -> tuple[int, ...]:
    """Where a training pauses: after each third of its reports, where many are begun at once.

    With what all of them tell then, some would not be begun. One by one, nearly all that are begun are worth their end.
    """
    if concurrent < BLIND:
        return ()
    found = dict.fromkeys(-(-third * epochs // 3) for third in (1, 2))
    return tuple(pause for pause in found if 1 < pause < epochs)


TRIFLE = 1e-3
"""An open training whose end promises less than this share of the front's hypervolume is left open for good."""

_LOSSES = (Objective(metric="quality", direction="minimize"), Objective(metric="cost", direction="minimize"))


@dataclass(frozen=True, slots=True)
class Move:
    """A training to begin, or one to go on with.

    Attributes:
        encoded: the combination.
        waiting: the trial that goes on; ``None`` for a new one.
        until: the report after which to pause; ``None`` to train to the end.
    """

    encoded: Encoded
    waiting: TrialRecord | None
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
        concurrent: trials at once.
    """

    codec: Codec
    goal: Objective
    cost: Objective | None
    limits: Sequence[str]
    epochs: int
    concurrent: int = 1

    @classmethod
    def of(
        cls, codec: Codec, objectives: Sequence[Objective], limits: Sequence[str], *, epochs: int, concurrent: int = 1
    ) -> "Surrogate | None":
        """The surrogate of a study; ``None`` where it has several quality objectives, or several measured ones."""
        qualities = [goal for goal in objectives if not goal.measured]
        costs = [goal for goal in objectives if goal.measured]
        if len(qualities) != 1 or len(costs) > 1:
            return None
        return cls(
            goal=qualities[0],
            cost=costs[0] if costs else None,
            codec=codec,
            limits=limits,
            epochs=epochs,
            concurrent=concurrent,
        )

    def move(
        self, records: Sequence[TrialRecord], rng: Random, *, barred: Collection[HeadPlan], fresh: bool, pauses: bool
    ) -> Move | None:
        """The best move after *records*; ``None`` where none is left that promises anything.

        Args:
            records: every trial.
            rng: draws combinations where there are too many to list.
            barred: plans that are not to be begun.
            fresh: whether a new training may be begun.
            pauses: whether a training may pause.
        """
        outlook = self._outlook(records)
        new = untried(outlook, barred, rng) if fresh else []
        if not outlook.finished:
            return Move(rng.choice(new), None, None) if new else None
        wanted = (Outcome.PAUSED, Outcome.SET_ASIDE) if fresh else (Outcome.PAUSED,)
        waiting = [one for one in outlook.seen if one.record.outcome in wanted and one.record.ended is None]
        if not new and not waiting:
            return None
        stops = pauses_of(self.epochs, self.concurrent) if pauses else ()

        def pause_after(step: int) -> int | None:
            return next((pause for pause in stops if pause > step), None)

        moves = [Move(code, None, pause_after(0)) for code in new]
        moves += [Move(one.encoded, one.record, pause_after(_reached(one.record))) for one in waiting]
        gain, whole = self._gains(outlook, moves)
        left = [self.epochs] * len(new) + [max(1, self.epochs - _reached(one.record)) for one in waiting]
        pick = int(np.argmax(gain / np.array(left)))
        return moves[pick] if fresh or gain[pick] > TRIFLE * whole else None

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

    def _gains(self, outlook: Outlook, moves: Sequence[Move]) -> tuple[Array, float]:
        """What the end of each move is expected to add to the front's hypervolume, and that hypervolume itself.

        The front is that of the finished trials and of those that run, as they are believed to be: what a noisy value
        claims beyond that is not to be chased.
        """
        standing = [one for one in outlook.seen if one.record.feasible and one.record.outcome in (None, Outcome.OK)]
        belief = outlook.of([*(move.encoded for move in moves), *(one.encoded for one in standing)])
        records = [*(move.waiting for move in moves), *(one.record for one in standing)]
        cost = np.array([self._cost(record, guess) for record, guess in zip(records, belief.cost, strict=True)])
        allowed = np.array(
            [1.0 if move.waiting else chance for move, chance in zip(moves, belief.allowed, strict=False)]
        )
        ours, theirs = slice(len(moves)), slice(len(moves), None)
        front = list(zip(belief.quality[theirs].tolist(), cost[theirs].tolist(), strict=True))
        reference = self._reference(outlook, cost)
        gain = expected_gain(belief.quality[ours], belief.doubt[ours], cost[ours], front, reference)
        return gain * allowed, hypervolume(front, _LOSSES, reference) if front else 0.0

    def _reference(self, outlook: Outlook, cost: Array) -> Point:
        """A tenth beyond the worst quality of the baselines and the highest cost of all."""
        first = [one for one in outlook.finished if one.record.kind == "baseline"] or outlook.finished
        quality = [self.goal.loss(one.record.metrics[self.goal.metric]) for one in first]
        corners = [(max(quality), float(cost.max())), (min(quality), float(cost.min()))]
        worst, dearest = reference_point(corners, _LOSSES)
        return worst, dearest if self.cost else 1.0  # without a cost, the hypervolume is the gain in quality

    def _cost(self, record: TrialRecord | None, guess: float) -> float:
        if self.cost is None or record is None or self.cost.metric not in record.metrics:
            return float(guess)
        return self.cost.loss(record.metrics[self.cost.metric])


def _reached(record: TrialRecord) -> int:
    """The last report of a trial; 0 before the first."""
    return record.curve[-1][0] if record.curve else 0
