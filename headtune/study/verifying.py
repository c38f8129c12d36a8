"""Finalists, timed again side by side and retrained with seeds that did not choose them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headtune.search import Ledger, ReplayBroker
from headtune.study.checking import Checked
from headtune.study.contest import Contest, trained_until
from headtune.study.failing import nothing_retrained, shortfall
from headtune.study.judging import exactly, judge
from headtune.study.racing import Pair
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
    """Retrain the *chosen* trials' plans, time them again side by side, and judge.

    Those that are close race on with more seeds, up to ``verify.max_seeds``; see :mod:`headtune.study.racing`. Plans
    that only the noise of the search may have kept off its front are added; see :mod:`headtune.study.nearby`.

    With ``verify.seeds: 0`` nothing is retrained, and the search's own single seed is all that is judged by. Where the
    task trains nothing, each plan is scored once more, which leaves its model and its test score. A finalist
    is judged by the trainings that came to their end; one without any is left out, and the verdict says so.

    Raises:
        TrialError: no plan that may be recommended was trained to its end; the next start tries them again.
    """
    seeds, most = (spec.verify.seeds, spec.verify.most) if checked.trains else (min(spec.verify.seeds, 1),) * 2
    near = spec.verify.top if checked.trains and seeds else 0
    contest = Contest(ledger.trials(), chosen, spec.objectives, seeds=seeds, most=most, near=near)
    observer.phase("verify", f"finalists: {len(chosen)}, {_effort(seeds, most, trains=checked.trains)}")
    trainings = _retrained(spec, setup, contest, ledger, executor, observer) if seeds else tuple(chosen)
    entrants = contest.entrants(trainings)
    standing = contest.standing(entrants, trainings)
    finalists, lost, told = [], [], []
    for trial, seen, look in zip(entrants, _profiled(setup, entrants, executor), standing.looks, strict=True):
        latest = trained_until(trial, trainings, look)
        good = [training for training in latest if training.outcome is Outcome.OK]
        bad = [training for training in latest if training.outcome is not Outcome.OK]
        finalists.append(_finalist(trial, seen, setup, checked, good))
        if bad:
            lost += bad if finalists[-1].able else []
            told.append(shortfall(_name(trial), bad, len(latest)))
    if any(finalist.able for finalist in finalists) and not any(one.able and one.seeds for one in finalists):
        ledger.remember(_AGAIN, max(training.number for training in trainings))
        raise nothing_retrained(lost, spec.output)
    found = contest.better(entrants, standing, trainings) if checked.trains else exactly(finalists, spec.objectives)
    marked, verdict = _judged(spec, checked, finalists, found, standing.best)
    return marked, replace(verdict, findings=(*told, *verdict.findings))


def _effort(seeds: int, most: int, *, trains: bool) -> str:
    if not trains:
        return "nothing is trained, so each is scored once"
    return f"seeds each: {seeds}" if most == seeds else f"seeds each: {seeds}, up to {most} where they are close"


def _judged(
    spec: StudySpec,
    checked: Checked,
    finalists: Sequence[Finalist],
    better: Mapping[str, frozenset[Pair]],
    best: int | None,
) -> tuple[tuple[Finalist, ...], Verdict]:
    """The verdict on those finalists that were trained at all."""
    place = {old: new for new, old in enumerate(index for index, one in enumerate(finalists) if one.seeds)}
    kept = {
        metric: frozenset((place[a], place[b]) for a, b in pairs if a in place and b in place)
        for metric, pairs in better.items()
    }
    return judge(
        [finalists[index] for index in place],
        spec.objectives,
        budget=bool(spec.limits),
        better=kept,
        best=None if best is None else place.get(best),
        exact=not checked.trains,
    )


def _profiled(setup: TrialSetup, chosen: Sequence[TrialRecord], executor: Executor) -> list[Profiled]:
    """The *chosen* trials' plans, timed; once where params differ with which no model is built."""
    model = setup.task.load().model
    candidates = [Candidate(plan=trial.plan, params=named_params(model, trial.params)) for trial in chosen]
    distinct = [candidate for index, candidate in enumerate(candidates) if candidate not in candidates[:index]]
    profiled = executor.call(profile_candidates, setup, distinct)
    return [profiled[distinct.index(candidate)] for candidate in candidates]


def _retrained(
    spec: StudySpec, setup: TrialSetup, contest: Contest, ledger: Ledger, executor: Executor, observer: Observer
) -> tuple[TrialRecord, ...]:
    again = ledger.recall(_AGAIN)
    broker = ReplayBroker(
        ledger,
        contest.wanted,
        seed=spec.seed,
        epochs=spec.search.epochs,
        concurrent=executor.slots,
        again=-1 if again is None else again,
        observer=observer,
    )
    executor.run(broker, setup)
    return ledger.verify_trials()


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
