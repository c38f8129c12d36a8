"""The study as the sampler sees it: in memory, every ended trial complete, bad ones marked by constraints.

A sampler ignores failed trials and would propose a crashing plan for ever; Optuna's TPE cannot bear a stopped trial
with a learning curve in a study of several objectives; its Gaussian process needs the same constraints in the same
order in every trial. So the durable study keeps the honest states, and the sampler is shown this translation, made anew
for each proposal: a restart sees what an uninterrupted study would have seen.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from optuna.samplers import BaseSampler, NSGAIISampler
from optuna.trial import FrozenTrial, TrialState

from headtune.pareto import Objective, non_dominated
from headtune.search.codec import Codec, Encoded
from headtune.search.quiet import undisturbed
from headtune.search.told import ToldTrial, told_study
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

TOLD = 1000
"""Trials that a model-based sampler is told of at most.

Its time grows with them, and Optuna's TPE narrows its kernels with their number until it proposes nothing but copies of
what it was told.
"""


def proposals(
    sampler: BaseSampler,
    records: Sequence[TrialRecord],
    codec: Codec,
    objectives: Sequence[Objective],
    limits: Sequence[str],
) -> Iterator[Encoded]:
    """What *sampler* proposes after *records*, without end.

    Each proposal stays pending when the next one is asked for, which pushes the sampler away from it.
    """
    with undisturbed():
        told = shadow_trials(records, codec, objectives, limits, sampler)
        study = told_study(told, [goal.direction for goal in objectives], sampler)
    while True:
        with undisturbed():
            trial = study.ask(codec.distributions)
        yield dict(trial.params)


def shadow_trials(
    records: Sequence[TrialRecord],
    codec: Codec,
    objectives: Sequence[Objective],
    limits: Sequence[str],
    sampler: BaseSampler,
) -> list[FrozenTrial]:
    """The trials that *sampler* is shown: of *records*, those that lie in the space."""
    if not isinstance(sampler, NSGAIISampler):  # which needs every generation
        records = _best_and_latest(records, objectives)
    failures = any(_failed(record, limits) for record in records)
    shown: list[FrozenTrial] = []
    for record in records:
        encoded = codec.encode(record.plan, record.params)
        if encoded is None:
            continue
        if record.outcome is None:
            shown.append(ToldTrial(TrialState.RUNNING, codec, encoded))
            continue
        shown.append(
            ToldTrial(
                TrialState.COMPLETE,
                codec,
                encoded,
                values=[_value(record, goal, objectives) for goal in objectives],
                constraints=_constraints(record, limits, failures=failures),
                system_attrs=_generation(sampler, len(shown)),
            )
        )
    return shown


def _best_and_latest(records: Sequence[TrialRecord], objectives: Sequence[Objective]) -> Sequence[TrialRecord]:
    """The front, and of the other trials the latest, as many as a sampler is told of."""
    if len(records) <= TOLD:
        return records
    offers = [record for record in records if record.on_offer]
    values = [[record.metrics[goal.metric] for goal in objectives] for record in offers]
    front = [offers[index] for index in non_dominated(values, objectives)] if offers else []
    best = {record.number for record in front}
    others = [record for record in records if record.number not in best]
    return sorted([*others, *front][-TOLD:], key=lambda record: record.number)


def _value(record: TrialRecord, goal: Objective, objectives: Sequence[Objective]) -> float:
    """The final value; of one trained for a part the last report; else the worst there is, which samplers clip."""
    worst = -math.inf if goal.direction == "maximize" else math.inf
    if record.outcome is Outcome.OK or goal.measured:
        return float(record.metrics.get(goal.metric, worst))
    first_quality = next(other for other in objectives if not other.measured)
    if record.outcome is Outcome.STOPPED and goal == first_quality and record.curve:
        return record.curve[-1][1]
    return worst


def _constraints(record: TrialRecord, limits: Sequence[str], *, failures: bool) -> dict[str, float]:
    """The violations in the order of *limits*, and, once any trial failed, whether this one did."""
    vector = {name: float(record.violations.get(name, 0.0)) for name in limits}
    return vector | ({"failed": float(_failed(record, limits))} if failures else {})


def _failed(record: TrialRecord, limits: Sequence[str]) -> bool:
    """Whether the trial failed, or broke a constraint that is not among *limits*."""
    told = any(record.violations.get(name, 0.0) > 0 for name in limits)
    return record.failed or (record.outcome is Outcome.INFEASIBLE and not told)


def _generation(sampler: BaseSampler, position: int) -> dict[str, Any]:
    """NSGA-II finds its populations by a number that it writes into each trial; here they are cut in order."""
    if not isinstance(sampler, NSGAIISampler):
        return {}
    size = sampler.population_size or 1
    return {sampler._get_generation_key(): position // size}
