"""Which plans are judged again."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest

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

    Where more is known of a trial's quality than what one seed has shown, the front of what was seen and the front of
    what is believed take turns: a model may smooth the best plan away, a lucky seed may feign one.
    """
    fronts = [front_of(trials, objectives)] + ([front_of(trials, objectives, believed)] if believed else [])
    turns = zip_longest(*(_by_worth(front, objectives, reference_point) for front in fronts))
    chosen: dict[object, TrialRecord] = {}
    for trial in filter(None, chain.from_iterable(turns)):
        if len(chosen) == top:
            break
        chosen.setdefault(identity(trial), trial)
    for trial in trials:
        if trial.label in ALWAYS and trial.trained:
            chosen.setdefault(identity(trial), trial)
    return tuple(chosen.values())


def _by_worth(
    front: ParetoFront[TrialRecord], objectives: Sequence[Objective], reference_point: Sequence[float] | None
) -> Iterator[TrialRecord]:
    """The front's trials, the best in the first objective first, then always the one that adds most hypervolume.

    Greedily, which is within 1 − 1/e of the best choice (Nemhauser, Wolsey and Fisher, 1978). Without a reference
    point, the front's own order.
    """
    rest, taken = list(front), list[Sequence[float]]()
    while rest:
        at = 0
        if taken and reference_point is not None:
            worth = [hypervolume([*taken, point.values], objectives, reference_point) for point in rest]
            at = worth.index(max(worth))
        point = rest.pop(at)
        taken.append(point.values)
        yield point.item


def identity(trial: TrialRecord) -> tuple[object, ...]:
    """What makes two trials trainings of one and the same thing, whatever their seeds."""
    return trial.plan, tuple(sorted(trial.params.items()))


def _values(trial: TrialRecord, objectives: Sequence[Objective], believed: Mapping[int, float]) -> tuple[float, ...]:
    return tuple(
        trial.metrics[goal.metric] if goal.measured else believed.get(trial.number, trial.metrics[goal.metric])
        for goal in objectives
    )
