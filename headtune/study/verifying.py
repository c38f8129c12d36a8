"""Finalists, timed again side by side and retrained with seeds that did not choose them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headtune.search import Ledger, ReplayBroker, Retraining
from headtune.study.checking import Checked
from headtune.study.failing import nothing_retrained, shortfall
from headtune.study.finalists import identity
from headtune.study.judging import judge
from headtune.study.record import Finalist, Verdict
from headtune.study.spec import StudySpec
from headtune.trial.build import named_params
from headtune.trial.contract import Executor, Observer
from headtune.trial.measuring import Candidate, Profiled, profile_candidates, violations
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord
from headtune.trial.setup import TrialSetup

_AGAIN = "retrain_up_to"


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

    With ``verify.seeds: 0`` nothing is retrained, and the search's own single seed is all that is judged by. Where the
    task trains nothing, each plan is scored once more, which leaves its model and its test score. A finalist
    is judged by the trainings that came to their end; one without any is left out, and the verdict says so.

    Raises:
        TrialError: no plan that may be recommended was trained to its end; the next start tries them again.
    """
    seeds = spec.verify.seeds if checked.trains else min(spec.verify.seeds, 1)
    again = f"seeds each: {seeds}" if checked.trains else "nothing is trained, so each is scored once"
    observer.phase("verify", f"finalists: {len(chosen)}, {again}")
    profiled = _profiled(setup, chosen, executor)
    trainings = _retrained(spec, setup, chosen, seeds, ledger, executor, observer) if seeds else tuple(chosen)
    finalists, lost, told = [], [], []
    for trial, seen in zip(chosen, profiled, strict=True):
        latest = _latest([training for training in trainings if identity(training) == identity(trial)])
        good = [training for training in latest if training.outcome is Outcome.OK]
        bad = [training for training in latest if training.outcome is not Outcome.OK]
        finalists.append(_finalist(trial, seen, setup, checked, good))
        if bad:
            lost += bad if finalists[-1].able else []
            told.append(shortfall(_name(trial), bad, len(latest)))
    judged = [finalist for finalist in finalists if finalist.seeds]
    if any(finalist.able for finalist in finalists) and not any(finalist.able for finalist in judged):
        ledger.remember(_AGAIN, max(training.number for training in trainings))
        raise nothing_retrained(lost, spec.output)
    marked, verdict = judge(judged, spec.objectives, budget=bool(spec.limits), exact=not checked.trains)
    return marked, replace(verdict, findings=(*told, *verdict.findings))


def _profiled(setup: TrialSetup, chosen: Sequence[TrialRecord], executor: Executor) -> list[Profiled]:
    """The *chosen* trials' plans, timed; once where params differ with which no model is built."""
    model = setup.task.load().model
    candidates = [Candidate(plan=trial.plan, params=named_params(model, trial.params)) for trial in chosen]
    distinct = [candidate for index, candidate in enumerate(candidates) if candidate not in candidates[:index]]
    profiled = executor.call(profile_candidates, setup, distinct)
    return [profiled[distinct.index(candidate)] for candidate in candidates]


def _retrained(
    spec: StudySpec,
    setup: TrialSetup,
    chosen: Sequence[TrialRecord],
    seeds: int,
    ledger: Ledger,
    executor: Executor,
    observer: Observer,
) -> tuple[TrialRecord, ...]:
    again = ledger.recall(_AGAIN)
    broker = ReplayBroker(
        ledger,
        [
            Retraining(plan=trial.plan, params=trial.params, repeat=repeat, label=trial.label, in_space=trial.in_space)
            for repeat in range(1, seeds + 1)
            for trial in chosen
        ],
        seed=spec.seed,
        epochs=spec.search.epochs,
        concurrent=executor.slots,
        again=-1 if again is None else again,
        observer=observer,
    )
    executor.run(broker, setup)
    return ledger.verify_trials()


def _latest(trainings: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The last training of each repeat, in the order of the repeats."""
    by_repeat = {training.repeat: training for training in trainings}
    return [by_repeat[repeat] for repeat in sorted(by_repeat)]


def _finalist(
    trial: TrialRecord, seen: Profiled, setup: TrialSetup, checked: Checked, trained: Sequence[TrialRecord]
) -> Finalist:
    goals = [goal.metric for goal in setup.objectives if not goal.measured]
    broken = violations(setup, trial.plan, seen)
    return Finalist(
        plan=trial.plan,
        params=trial.params,
        labels=checked.baselines.names(trial.plan),
        measured=seen.metrics(setup.reference_ms),
        latency=seen.latency,
        shorter=seen.shorter,
        quality={metric: tuple(again.metrics[metric] for again in trained) for metric in goals},
        test=_columns([again.test_metrics for again in trained]),
        tied_with_best=False,
        feasible=all(amount <= 0 for amount in broken.values()),
        in_space=trial.plan in checked.space,
    )


def _name(trial: TrialRecord) -> str:
    params = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in trial.params.items()
    )
    return f"{trial.plan.label} with {params}" if params else trial.plan.label


def _columns(rows: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row[name] for row in rows if name in row) for name in names}
