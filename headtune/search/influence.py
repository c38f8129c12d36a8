"""What mattered: how much each choice of the search decided whether an objective came out well.

PED-ANOVA (Watanabe et al., 2023), as Optuna computes it: where the best trials chose otherwise than all trials did, the
choice mattered. A share is compared with chance, by the same analysis on shuffled values: few trials always seem to
agree on something.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from random import Random
from typing import Any

from optuna import Study
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.trial import TrialState

from headtune.heads import SearchSpace
from headtune.pareto import Objective
from headtune.search.codec import Codec, Encoded
from headtune.search.quiet import undisturbed
from headtune.search.seeds import derive
from headtune.search.told import ToldTrial, told_study
from headtune.trial.outcome import Outcome
from headtune.trial.params import Param
from headtune.trial.record import TrialRecord

FEWEST = 20
"""Trials with which it is computed at least."""

_MOST = 1000
_BEST = 0.1
_FEWEST_BEST = 5
_SHUFFLES = 19
"""So many that what exceeds all of them has one chance in twenty to be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """How much each choice decided one objective.

    Attributes:
        metric: the objective's.
        trials: that it is computed from.
        shares: site, group of sites or param → share of all influence; they sum to 1. In the model's order, params
            last; empty where nothing can be told.
        clear: those whose influence is larger than any choice has by chance, the largest first.
        why: why nothing can be told; else empty.
    """

    metric: str
    trials: int
    shares: Mapping[str, float]
    clear: tuple[str, ...] = ()
    why: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Influence":
        """The inverse of ``dataclasses.asdict``."""
        return cls(**{**data, "clear": tuple(data["clear"])})


def influences(
    records: Sequence[TrialRecord],
    space: SearchSpace,
    params: Mapping[str, Param],
    objectives: Sequence[Objective],
    *,
    seed: int,
) -> tuple[Influence, ...]:
    """What mattered for each objective, in their order, but for the parameters: these need no statistics.

    What the task reports is taken from trials that were trained to their end. What headtune measures is known before
    any training, so that stopped, failed and infeasible trials count too. Plans outside of the space say nothing of it.

    Args:
        records: the search's trials.
        space: the legal plans.
        params: the study's extra hyper-parameters.
        objectives: of the study.
        seed: of the draw of trials, where there are very many, and of the comparison with chance.
    """
    codec = Codec(space, params)
    with undisturbed():
        return tuple(
            _influence(goal, records, codec, Random(derive("influence", seed)))
            for goal in objectives
            if goal.metric != "parameters"
        )


def _influence(goal: Objective, records: Sequence[TrialRecord], codec: Codec, rng: Random) -> Influence:
    known = _known(goal, records, codec)
    names = [name for name, distribution in codec.distributions.items() if not distribution.single()]
    why = _why_not(names, [loss for _, loss in known])
    if why:
        return Influence(metric=goal.metric, trials=len(known), shares={}, why=why)
    drawn = known if len(known) <= _MOST else rng.sample(known, _MOST)
    study = told_study(
        [ToldTrial(TrialState.COMPLETE, codec, encoded, values=[0.0]) for encoded, _ in drawn], ["minimize"]
    )
    losses = [loss for _, loss in drawn]
    scores = _scores(study, names, losses)
    chance = max(max(_scores(study, names, rng.sample(losses, len(losses))).values()) for _ in range(_SHUFFLES))
    clear = sorted((name for name in names if scores[name] > chance), key=lambda name: -scores[name])
    whole = sum(scores.values()) or 1.0
    return Influence(
        metric=goal.metric,
        trials=len(drawn),
        shares={name: scores[name] / whole for name in names},
        clear=tuple(clear),
    )


def _known(goal: Objective, records: Sequence[TrialRecord], codec: Codec) -> list[tuple[Encoded, float]]:
    """What the trials that count chose, and how they came out; lower is better."""
    found = []
    for record in records:
        encoded = codec.encode(record.plan, record.params)
        value = record.metrics.get(goal.metric)
        counts = record.outcome is Outcome.OK or (goal.measured and record.outcome is not None)
        if counts and encoded is not None and value is not None and isfinite(value):
            found.append((encoded, goal.loss(value)))
    return found


def _why_not(names: Sequence[str], losses: Sequence[float]) -> str:
    if len(names) < 2:
        return f"{names[0]} is all that there is to choose" if names else "there is nothing to choose"
    if len(losses) < FEWEST:
        return f"{len(losses)} of the {FEWEST} trials that it takes are there"
    if min(losses) == max(losses):
        return f"all {len(losses)} trials have the same value"
    last_of_best = sorted(losses)[ceil(_share_of_best(losses) * len(losses)) - 1]
    tied = sum(loss <= last_of_best for loss in losses)
    return f"{tied} of {len(losses)} trials tie for the best" if 2 * tied > len(losses) else ""


def _share_of_best(losses: Sequence[float]) -> float:
    """A tenth of the trials are the best, but not too few to tell anything by."""
    return max(_BEST, _FEWEST_BEST / len(losses))


def _scores(study: Study, names: Sequence[str], losses: Sequence[float]) -> dict[str, float]:
    """How far the best trials' choices lie from those of all, for trials that came out as *losses*."""
    evaluator = PedAnovaImportanceEvaluator(target_quantile=_share_of_best(losses))
    return evaluator.evaluate(study, list(names), target=lambda trial: losses[trial.number])
