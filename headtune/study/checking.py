"""Before anything is paid: does the task import, does the model run, does it take a plan?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from headtune.errors import SpaceError, SpecError, TaskError
from headtune.heads import AttentionSite, Baselines, SearchSpace, baselines
from headtune.study.spec import StudySpec
from headtune.study.trying import try_plans
from headtune.surgery import SitePossibility, apply_plan, find_sites, possibilities
from headtune.surgery.sharing import Supernet
from headtune.surgery.transaction import copied
from headtune.timing import count_parameters
from headtune.trial.build import build_model, probe_inputs
from headtune.trial.contract import Observer, Silent
from headtune.trial.forks import one_process
from headtune.trial.keeping import kept_digest, kept_model, rank_heads, weight_digests
from headtune.trial.params import baseline_values
from headtune.trial.seeding import kept_rng_state
from headtune.trial.supernet import why_no_supernet
from headtune.trial.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A study that can run.

    Attributes:
        sites: the attention sites as the model really computes them.
        space: the legal plans.
        baselines: the named plans that every search is compared with.
        possibilities: per site, what can be done to it.
        locked: what the task's missing functions lock, as sentences.
        trains: whether trials train; else they score the pruned model as it is.
        parameters: weights of the model as it is.
        kept: digest of the trained weights that are kept; empty where they are fresh.
    """

    sites: tuple[AttentionSite, ...]
    space: SearchSpace
    baselines: Baselines
    possibilities: tuple[SitePossibility, ...]
    locked: tuple[str, ...]
    trains: bool
    parameters: int
    kept: str = ""


@one_process()
@kept_rng_state()
def check(spec: StudySpec, observer: Observer | None = None) -> Checked:
    """Import the task, watch one forward pass, and watch that a plan really changes what the model computes.

    Raises:
        TaskError: the task does not import, ``model`` or ``inputs`` fail, nothing trains weights that are fresh, those
            that are to be kept are drawn anew each time, or a supernet lacks one of the task's functions.
        SurgeryError: no attention is found, or the model does not take a plan, or plans cannot share weights where a
            supernet is to judge them.
        SpecError: the trials are too few for a supernet to choose any.
        SpaceError: no plan is legal, or the present counts are the only one.
    """
    (observer or Silent()).phase("check", spec.task.name)
    task = spec.task.load()
    trained = spec.weights == "keep"
    if task.train is None and not trained:
        raise TaskError(
            f"task {spec.task.name}: has no train, but `weights: fresh` trains each plan; give train=(model, run), "
            "or write `weights: keep` to score a trained model as it is"
        )
    shared = spec.search.evaluator == "supernet"
    if shared and (problems := why_no_supernet(task, baseline_values(spec.params))):
        raise TaskError(*(f"task {spec.task.name}: {problem}" for problem in problems))
    # Built first and let go of, so that the generators stand as a single build leaves them.
    other = weight_digests(build_model(task, baseline_values(spec.params), spec.seed ^ 1)) if trained else {}
    model = build_model(task, baseline_values(spec.params), spec.seed)
    inputs = probe_inputs(task, spec.latency)
    sites = find_sites(model, inputs)
    kept = kept_digest(model, other, sites) if trained else ""
    space = SearchSpace.of(sites, spec.space, trained=trained)
    named = baselines(sites, spec.space, trained=trained)
    if set(islice(space, 2)) <= {named["present"]}:
        raise SpaceError(
            f"the space holds no other plan than the present counts {named['present'].label}: allow more in space.heads"
        )
    if trained:
        ranking = rank_heads(replace(task, loss=None), model, inputs, sites)
        try_plans(space, lambda plan: kept_model(model, plan, inputs, ranking, sites))
    else:
        try_plans(
            space,
            lambda plan: apply_plan(model, plan, inputs, hold=spec.space.hold, seed=spec.seed, sites=sites),
        )
    if shared:
        _left_to_shortlist(spec.search.trials, named)
        Supernet.of(copied(model), inputs, space, seed=spec.seed)
    return Checked(
        sites=sites,
        space=space,
        baselines=named,
        possibilities=possibilities(model, inputs),
        locked=_locked(task, trained),
        trains=task.train is not None,
        parameters=count_parameters(model),
        kept=kept,
    )


def _left_to_shortlist(trials: int, named: Baselines) -> None:
    first = len(set(named.plans.values()))
    if trials <= first:
        raise SpecError(
            f"search.trials: is {trials}, and {first} baselines are trained first: under `evaluator: supernet` it must "
            f"be more than {first}, or nothing is left for the plans that the supernet finds"
        )


def _locked(task: Task, trained: bool) -> tuple[str, ...]:
    optional: list[tuple[Callable[..., Any] | None, str]] = [
        (task.evaluate, "no evaluate: the last report of train counts as the quality"),
        (task.test, "no test: finalists get no test score, only fresh seeds on the validation data"),
    ]
    if trained:
        scored = None if task.loss is None or task.batches is None else task.loss
        optional += [
            (task.train, "no train: a pruned model is scored as it is"),
            (scored, "no loss with batches: heads are ranked by the norms of their weights, not by gradients"),
        ]
    return tuple(sentence for function, sentence in optional if function is None)
