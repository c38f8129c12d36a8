"""The study as the sampler sees it: in memory, every ended trial complete, bad ones marked by constraints.

A sampler ignores failed trials and would propose a crashing plan for ever; Optuna's TPE cannot bear a stopped trial
with a learning curve in a study of several objectives; its Gaussian process needs the same constraints in the same
order in every trial. So the durable study keeps the honest states, and the sampler is shown this translation, made anew
for each proposal: a restart sees what an uninterrupted study would have seen.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import optuna
from optuna.samplers import BaseSampler, NSGAIISampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from headtune.pareto import Objective
from headtune.search.codec import Codec, Encoded
from headtune.search.quiet import undisturbed
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_FAILED = (Outcome.CRASHED, Outcome.OUT_OF_MEMORY, Outcome.DIVERGED)


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
        study = optuna.create_study(directions=[goal.direction for goal in objectives], sampler=sampler)
        study.add_trials(shadow_trials(records, codec, objectives, limits, sampler))
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
    failures = any(_failed(record, limits) for record in records)
    shown = []
    for record in records:
        encoded = codec.encode(record.plan, record.params)
        if encoded is None:
            continue
        if record.outcome is None:
            shown.append(create_trial(state=TrialState.RUNNING, params=encoded, distributions=codec.distributions))
            continue
        shown.append(
            create_trial(
                params=encoded,
                distributions=codec.distributions,
                values=[_value(record, goal, objectives) for goal in objectives],
                constraints=_constraints(record, limits, failures=failures),
                system_attrs=_generation(sampler, len(shown)),
            )
        )
    return shown


def _value(record: TrialRecord, goal: Objective, objectives: Sequence[Objective]) -> float:
    """The final value; of a stopped trial its last report; else the worst there is, which samplers clip."""
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
    return record.outcome in _FAILED or (record.outcome is Outcome.INFEASIBLE and not told)


def _generation(sampler: BaseSampler, position: int) -> dict[str, Any]:
    """NSGA-II finds its populations by a number that it writes into each trial; here they are cut in order."""
    if not isinstance(sampler, NSGAIISampler):
        return {}
    size = sampler.population_size or 1
    return {sampler._get_generation_key(): position // size}
