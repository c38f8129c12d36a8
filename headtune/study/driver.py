"""One driver's hold on a study: the ledger, what the check and the profile found, and who runs the trials."""

from headtune.errors import StudyChangedError
from headtune.execute import InlineExecutor
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.study.checking import Checked, baseline_params, check
from headtune.study.facts import range_from_json, range_to_json
from headtune.study.fingerprint import fingerprint
from headtune.study.preparing import trial_setup
from headtune.study.profiling import Profile, profile, resolve_limits
from headtune.study.reading import checked_to_json, manifest_of
from headtune.study.spec import StudySpec
from headtune.trial.build import named_params
from headtune.trial.contract import Executor, Observer
from headtune.trial.setup import TrialSetup


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
        cpus=asked.cpus, gpus=asked.gpus, concurrent=asked.concurrent, cluster=asked.cluster, observer=observer
    )


def check_and_remember(spec: StudySpec, ledger: Ledger, observer: Observer) -> Checked:
    """Check the study, and make sure that the model's sites are those it began with.

    Raises:
        StudyChangedError: the model has other attention sites than when the study began.
    """
    checked = check(spec, observer)
    now, before = checked_to_json(checked), ledger.recall("checked")
    if before is not None and before["sites"] != now["sites"]:
        raise StudyChangedError(
            f"the model's attention sites are not those that study {spec.name!r} began with: choose another name or "
            "output, or bring the model back"
        )
    ledger.remember("checked", now)
    return checked


def prepare(spec: StudySpec, checked: Checked, ledger: Ledger, executor: Executor, observer: Observer) -> TrialSetup:
    """What the workers need: profiled once in a study's life, since the reference must stay the same.

    Raises:
        Infeasible: no plan can meet the constraints.
    """
    kept = ledger.recall("profile")
    if kept is None:
        seen = profile(spec, checked, executor, observer)
        if seen.latency is not None:
            ledger.remember("latency_range", range_to_json(seen.latency))
        ledger.remember("profile", {name: dict(metrics) for name, metrics in seen.measured.items()})
    else:
        found = ledger.recall("latency_range")
        seen = Profile(measured=kept, latency=None if found is None else range_from_json(found))
    limits = resolve_limits(spec.limits, seen)
    ledger.remember("limits", limits)
    return trial_setup(spec, checked, limits=limits, found=seen.latency)


def broker_of(
    spec: StudySpec, checked: Checked, ledger: Ledger, setup: TrialSetup, concurrent: int, observer: Observer
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
        built_with=tuple(named_params(setup.task.load().model, baseline_params(spec))) if setup.needs_latency else None,
    )
    return SearchBroker(ledger, checked.space, rules, baselines=checked.baselines.plans, observer=observer)
