"""When a trial is not worth its remaining epochs.

The rungs are those of successive halving (ASHA, Li et al. 2020). The comparison is headtune's own: a trial is judged
only against trials that are not slower, since a fast plan with less quality may still lie on the front.
"""

from collections.abc import Iterable, Sequence

from headtune.pareto import Objective
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

ETA = 3
"""Of the trials that are not slower, the best 1/η go on at each rung."""

ENOUGH = 3
"""With fewer trials to compare with, none is stopped."""


def rungs(epochs: int) -> tuple[int, ...]:
    """The reports at which trials are judged: after a ninth of them and after a third, never the first nor the last.

    ⌈epochs / η²⌉ and ⌈epochs / η⌉. Lower rungs would stop by the luck of the first steps.
    """
    found = {-(-epochs // ETA**2), -(-epochs // ETA)}
    return tuple(sorted(rung for rung in found if 1 < rung < epochs))


def stoppable(objectives: Sequence[Objective]) -> bool:
    """Whether trials can be judged by their curves: with several quality objectives a curve shows only one of them."""
    return sum(not goal.measured for goal in objectives) == 1


def should_stop(
    trial: TrialRecord, step: int, others: Iterable[TrialRecord], objectives: Sequence[Objective], epochs: int
) -> bool:
    """Whether to stop *trial* at its *step*-th report.

    Yes at a rung, where at least 1 − 1/η of the *others* that are not slower were better at this very report, and at
    least three are there to compare with. Not slower: every measured objective is at least as good.

    Args:
        others: trials of the same study, running, stopped or ended; infeasible and failed ones are left out here.
        epochs: reports of a full training.
    """
    if step not in rungs(epochs) or not stoppable(objectives):
        return False
    value = dict(trial.curve).get(step)
    quality = next(goal for goal in objectives if not goal.measured)
    measured = [goal for goal in objectives if goal.measured]
    if value is None or any(goal.metric not in trial.metrics for goal in measured):
        return False
    peers = [
        dict(other.curve)[step]
        for other in others
        if other.number != trial.number and _comparable(other, step) and _not_slower(other, trial, measured)
    ]
    better = sum(quality.better(peer, value) for peer in peers)
    return len(peers) >= ENOUGH and better * ETA >= (ETA - 1) * len(peers)


def _comparable(other: TrialRecord, step: int) -> bool:
    fine = other.outcome in (None, Outcome.OK, Outcome.STOPPED) and other.feasible
    return fine and step in dict(other.curve)


def _not_slower(other: TrialRecord, trial: TrialRecord, measured: Sequence[Objective]) -> bool:
    return all(
        goal.metric in other.metrics and goal.loss(other.metrics[goal.metric]) <= goal.loss(trial.metrics[goal.metric])
        for goal in measured
    )
