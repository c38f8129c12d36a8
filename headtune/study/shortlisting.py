"""The phase of a study in which a supernet chooses what is trained."""

import time
from collections.abc import Callable, Mapping

from headtune.errors import InputError
from headtune.heads import HeadPlan, SearchSpace
from headtune.search import Ledger
from headtune.study.agreement import agreement_sentence
from headtune.study.checking import Checked
from headtune.study.detailing import Measuring, fitted, timed_plans
from headtune.study.facts import range_from_json
from headtune.study.shared_scores import remember_supernet, supernet_of
from headtune.study.shortlist import shortlist
from headtune.study.spec import StudySpec
from headtune.timing.prediction import LatencyModel
from headtune.trial.contract import Executor, Observer
from headtune.trial.plan_costs import PlanCosts
from headtune.trial.plan_scores import PlanScore
from headtune.trial.setup import TrialSetup
from headtune.trial.supernet import train_supernet


def shortlist_of(
    spec: StudySpec, checked: Checked, ledger: Ledger, setup: TrialSetup, executor: Executor, observer: Observer
) -> tuple[HeadPlan, ...] | None:
    """The plans to train after the baselines, in order; ``None`` where the sampler proposes.

    The supernet is trained once in a study's life.

    Raises:
        MetricError: ``evaluate`` does not say what is an objective.
        TaskError: one of the task's functions failed.
        TrialError: the training diverged.
    """
    if spec.search.evaluator == "train":
        return None
    kept = supernet_of(ledger)
    if kept is not None:
        return kept.shortlist
    observer.phase(
        "supernet", f"one training of {spec.search.epochs} epochs for all plans, at the cost of about four of one plan"
    )
    began = time.monotonic()

    def say(doing: str) -> None:
        observer.phase("supernet", doing)

    costs = PlanCosts(hold=spec.space.hold, latency=_predictor(spec, checked, ledger, setup, executor, say))
    scores = executor.follow(train_supernet, setup, checked.space, costs, spec.search.epochs, spec.seed, say=say)
    plans = shortlist([one for one in scores if _may_be_feasible(one, setup, costs)], spec.objectives)
    seconds = time.monotonic() - began
    ordered_by = {goal.metric: costs.words(goal.metric) for goal in spec.objectives if goal.measured}
    remember_supernet(ledger, scores, plans, ordered_by, seconds)
    _explain(spec, scores, checked.space, ordered_by, seconds, observer)
    return plans


def agreement_findings(ledger: Ledger) -> tuple[str, ...]:
    """Whether the supernet ranks plans as full trainings do, in words; empty where none was trained."""
    kept = supernet_of(ledger)
    return () if kept is None else (agreement_sentence(kept.agreement),)


def _explain(
    spec: StudySpec,
    scores: tuple[PlanScore, ...],
    space: SearchSpace,
    ordered_by: Mapping[str, str],
    seconds: float,
    observer: Observer,
) -> None:
    whole = "every plan" if len(scores) == space.size else f"{len(scores)} of {space.size:,} plans"
    by = "".join(f"; {words} stood in for {metric}" for metric, words in ordered_by.items() if words != metric)
    observer.note(f"the supernet scored {whole} in {seconds:.3g} s{by}")
    wild = [one.plan.label for one in scores if not one.values(spec.objectives)]
    if wild:
        observer.note(f"of these, {len(wild)} have no finite score and are left out, {wild[0]} among them")
    if spec.params:
        names = ", ".join(spec.params)
        observer.note(f"{names}: every trial has the baseline value, since a supernet chooses plans, not params")


def _predictor(
    spec: StudySpec, checked: Checked, ledger: Ledger, setup: TrialSetup, executor: Executor, say: Callable[[str], None]
) -> LatencyModel | None:
    """A model of latencies that knows every count of the space; ``None`` where none is asked for, or can be made."""
    found = ledger.recall("latency_range")
    if not setup.timed or found is None:
        return None
    seen = range_from_json(found)
    known = {plan: seen.profiles[name] for name, plan in seen.plans.items()}
    work = Measuring.at_longest(spec, checked.space, setup, executor, say=say)
    model = fitted(work, timed_plans(work, known))
    return model if model is not None and _reaches(model, checked.space) else None


def _reaches(model: LatencyModel, space: SearchSpace) -> bool:
    """Whether the model predicts every choice of the space."""
    sizes = [len(dimension.choices) for dimension in space.dimensions]
    plans = [space.plan([at % size for size in sizes]) for at in range(max(sizes))]
    try:
        for plan in plans:
            model.predict(plan, model.lengths[-1])
    except InputError:
        return False
    return True


def _may_be_feasible(one: PlanScore, setup: TrialSetup, costs: PlanCosts) -> bool:
    """Whether no limit is broken for sure: parameters are known, of a prediction the whole interval counts."""
    for metric, most in setup.limits.items():
        if metric == "parameters" and one.costs[metric] > most:
            return False
        if metric in setup.reference_ms and costs.latency is not None:
            low = costs.latency.predict(one.plan, costs.latency.lengths[-1]).interval[0]
            if setup.timed[metric] == costs.latency.lengths[-1] and low * setup.reference_ms[metric] > most:
                return False
    return True
