"""Which plans are judged again."""

from collections.abc import Mapping, Sequence

from headtune.pareto import Objective, ParetoFront, hypervolume
from headtune.trial.record import TrialRecord

ALWAYS = ("present", "rule")
"""Baselines that are judged again wherever they trained."""


def front_of(
    trials: Sequence[TrialRecord], objectives: Sequence[Objective], believed: Mapping[int, float] | None = None
) -> ParetoFront[TrialRecord]:
    """The front of the trials that may be on one: trained to the end and feasible.

    Args:
        trials: in any order.
        objectives: the study's.
        believed: number → quality, where more is known of it than what one seed has shown.
    """
    values = [(_values(trial, objectives, believed or {}), trial) for trial in trials if trial.on_offer]
    return ParetoFront.of(objectives, values)


def choose_finalists(
    trials: Sequence[TrialRecord],
    objectives: Sequence[Objective],
    reference_point: Sequence[float] | None,
    top: int,
    believed: Mapping[int, float] | None = None,
) -> tuple[TrialRecord, ...]:
    """At most *top* trials of the front, those that hold most of its hypervolume; then the present and the rule.

    The best in the first objective is taken first, then always the one that adds most (greedily, which is within
    1 − 1/e of the best choice; Nemhauser, Wolsey and Fisher, 1978). Without a reference point, the front's own order.
    """
    front = front_of(trials, objectives, believed)
    rest, worth = list(front.items), {point.item.number: point.values for point in front}
    chosen: list[TrialRecord] = []
    while rest and len(chosen) < top:
        pick = rest[0]
        if chosen and reference_point is not None:
            pick = max(
                rest,
                key=lambda trial: hypervolume(
                    [worth[one.number] for one in (*chosen, trial)], objectives, reference_point
                ),
            )
        chosen.append(pick)
        rest.remove(pick)
    taken = {identity(trial) for trial in chosen}
    for trial in trials:
        if trial.label in ALWAYS and trial.trained and identity(trial) not in taken:
            chosen.append(trial)
            taken.add(identity(trial))
    return tuple(chosen)


def identity(trial: TrialRecord) -> tuple[object, ...]:
    """What makes two trials trainings of one and the same thing, whatever their seeds."""
    return trial.plan, tuple(sorted(trial.params.items()))


def _values(trial: TrialRecord, objectives: Sequence[Objective], believed: Mapping[int, float]) -> tuple[float, ...]:
    return tuple(
        trial.metrics[goal.metric] if goal.measured else believed.get(trial.number, trial.metrics[goal.metric])
        for goal in objectives
    )
