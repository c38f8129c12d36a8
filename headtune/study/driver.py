"""One driver's hold on a study: the ledger, what the check and the profile found, and who runs the trials."""

from collections.abc import Mapping, Sequence

from headtune.execute import InlineExecutor
from headtune.heads import Criterion, HeadPlan, HeadRanking
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.study.checking import Checked, check
from headtune.study.facts import range_from_json, range_to_json
from headtune.study.fingerprint import check_same_model, fingerprint
from headtune.study.preparing import trial_setup
from headtune.study.profiling import Profile, profile, resolve_limits
from headtune.study.reading import checked_to_json, manifest_of
from headtune.study.spec import StudySpec
from headtune.trial.build import named_params, rank
from headtune.trial.contract import Executor, Observer
from headtune.trial.params import baseline_values
from headtune.trial.setup import TrialSetup

RANKED: Mapping[Criterion, str] = {
    "gradient": "trained heads stay by the gradients of their gates, by loss and batches of the task",
    "norm": "trained heads stay by the norms of their value and output weights: the task has no loss with batches",
}
"""How heads were ranked, in words."""


def open_ledger(spec: StudySpec) -> Ledger:
    """The study's ledger, begun or continued; see :meth:`headtune.search.Ledger.open`."""
    return Ledger.open(
        spec.storage,
        spec.name,
        objectives=spec.objectives,
        fingerprint=fingerprint(spec),
        manifest=manifest_of(spec),
    )


def executor_of(spec: StudySpec, observer: Observer) -> Executor:
    """Who runs the study's trials; the *observer* hears what they wait for."""
    if spec.executor == "inline":
        return InlineExecutor()
    from headtune.execute.ray_tune import RayExecutor  # loading Ray takes seconds that others need not pay

    asked = spec.resources
    return RayExecutor(
        cpus=asked.cpus,
        gpus=asked.gpus,
        concurrent=asked.concurrent,
        cluster=asked.cluster,
        node=asked.node,
        accelerator=asked.accelerator,
        observer=observer,
    )


def measuring_executor(spec: StudySpec, observer: Observer) -> Executor:
    """Who only measures: this process, unless trials run on other machines than this one."""
    if spec.resources.cluster == "local" and not spec.resources.elsewhere:
        return InlineExecutor()
    return executor_of(spec, observer)


def check_and_remember(spec: StudySpec, ledger: Ledger, observer: Observer) -> Checked:
    """Check the study, and make sure that the model is the one it began with.

    Raises:
        StudyChangedError: the model has other attention sites, or other trained weights, than when the study began.
    """
    checked = check(spec, observer)
    now = checked_to_json(checked)
    check_same_model(spec.name, ledger.recall("checked"), now)
    ledger.remember("checked", now)
    return checked


def prepare(spec: StudySpec, checked: Checked, ledger: Ledger, executor: Executor, observer: Observer) -> TrialSetup:
    """What the workers need: profiled once in a study's life, since the reference must stay the same.

    Raises:
        Infeasible: no plan can meet the constraints.
        TaskError: the loss gives no gradients to rank trained heads by.
    """
    ranking = _ranking(spec, checked, ledger, executor, observer)
    kept = ledger.recall("profile")
    if kept is None:
        seen = profile(spec, checked, executor, observer, ranking=ranking)
        if seen.latency is not None:
            ledger.remember("latency_range", range_to_json(seen.latency))
        ledger.remember("profile", {name: dict(metrics) for name, metrics in seen.measured.items()})
    else:
        found = ledger.recall("latency_range")
        seen = Profile(measured=kept, latency=None if found is None else range_from_json(found))
    limits = resolve_limits(spec.limits, seen)
    ledger.remember("limits", limits)
    return trial_setup(spec, checked, ranking=ranking, limits=limits, found=seen.latency)


def _ranking(
    spec: StudySpec, checked: Checked, ledger: Ledger, executor: Executor, observer: Observer
) -> HeadRanking | None:
    """Which trained heads are worth most; asked once, so that each plan keeps the same ones in every trial."""
    if spec.weights == "fresh":
        return None
    kept = ledger.recall("ranking")
    if kept is not None:
        return HeadRanking.from_json(kept)
    observer.phase("rank", "which trained heads are worth most")
    ranking = executor.call(rank, trial_setup(spec, checked))
    ledger.remember("ranking", ranking.to_json())
    observer.note(RANKED[ranking.criterion])
    return ranking


def broker_of(
    spec: StudySpec,
    checked: Checked,
    ledger: Ledger,
    setup: TrialSetup,
    concurrent: int,
    observer: Observer,
    shortlist: Sequence[HeadPlan] | None = None,
) -> SearchBroker:
    """The search's broker, continuing what the ledger holds."""
    rules = SearchRules(
        params=spec.params,
        limits=tuple(setup.constraint_names),
        sampler=spec.search.sampler,
        trials=spec.search.trials,
        epochs=spec.search.epochs,
        stop_early=spec.search.stop_early,
        concurrent=concurrent,
        seed=spec.seed,
        timeout_s=spec.search.timeout_s,
        built_with=tuple(named_params(setup.task.load().model, baseline_values(spec.params))) if setup.timed else None,
    )
    baselines = checked.baselines.plans
    return SearchBroker(ledger, checked.space, rules, baselines=baselines, shortlist=shortlist, observer=observer)
