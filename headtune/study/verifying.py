"""Finalists, timed again side by side and retrained with seeds that did not choose them."""

from collections.abc import Mapping, Sequence

from headtune.search import Ledger, ReplayBroker, Retraining
from headtune.study.checking import Checked
from headtune.study.finalists import identity
from headtune.study.judging import judge
from headtune.study.record import Finalist, Verdict
from headtune.study.spec import StudySpec
from headtune.trial.contract import Executor, Observer
from headtune.trial.measuring import Candidate, Profiled, profile_candidates, violations
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord
from headtune.trial.setup import TrialSetup


def verify(
    spec: StudySpec,
    setup: TrialSetup,
    checked: Checked,
    chosen: Sequence[TrialRecord],
    ledger: Ledger,
    executor: Executor,
    observer: Observer,
) -> tuple[tuple[Finalist, ...], Verdict]:
    """Time the *chosen* trials' plans again, retrain them, and judge.

    With ``verify.seeds: 0`` nothing is retrained, and the search's own single seed is all that is judged by.
    """
    observer.phase("verify", f"{len(chosen)} plans × {spec.verify.seeds} seeds")
    candidates = [Candidate(plan=trial.plan, params=trial.params) for trial in chosen]
    profiled = executor.call(profile_candidates, setup, candidates)
    if spec.verify.seeds:
        broker = ReplayBroker(
            ledger,
            _retrainings(chosen, spec.verify.seeds),
            seed=spec.seed,
            epochs=spec.search.epochs,
            concurrent=executor.slots,
            observer=observer,
        )
        executor.run(broker, setup)
    retrained = ledger.verify_trials() if spec.verify.seeds else tuple(chosen)
    finalists = [
        _finalist(
            trial,
            seen,
            setup,
            checked,
            [again for again in retrained if again.outcome is Outcome.OK and identity(again) == identity(trial)],
        )
        for trial, seen in zip(chosen, profiled, strict=True)
    ]
    trained = [finalist for finalist in finalists if finalist is not None]
    return judge(trained, spec.objectives, budget=bool(spec.limits))


def _retrainings(chosen: Sequence[TrialRecord], seeds: int) -> list[Retraining]:
    return [
        Retraining(plan=trial.plan, params=trial.params, label=trial.label, repeat=repeat)
        for repeat in range(1, seeds + 1)
        for trial in chosen
    ]


def _finalist(
    trial: TrialRecord, seen: Profiled, setup: TrialSetup, checked: Checked, retrained: Sequence[TrialRecord]
) -> Finalist | None:
    """The finalist; ``None`` where not one retraining came to its end."""
    if not retrained:
        return None
    goals = [goal.metric for goal in setup.objectives if not goal.measured]
    by_repeat = sorted(retrained, key=lambda again: again.repeat)
    broken = violations(setup, trial.plan, seen)
    return Finalist(
        plan=trial.plan,
        params=trial.params,
        labels=checked.baselines.names(trial.plan),
        measured=seen.metrics(setup.reference_ms),
        latency=seen.latency,
        quality={metric: tuple(again.metrics[metric] for again in by_repeat) for metric in goals},
        test=_columns([again.test_metrics for again in by_repeat]),
        tied_with_best=False,
        feasible=all(amount <= 0 for amount in broken.values()),
        in_space=trial.plan in checked.space,
    )


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row[name] for row in rows if name in row) for name in names}
