"""The life of a study: check, profile, search, verify. Running it again continues where it stopped."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from headtune.errors import OtherDeviceError
from headtune.search import Ledger, SearchBroker, influences, trial_key
from headtune.study.driver import broker_of, check_and_remember, executor_of, open_ledger, prepare
from headtune.study.facts import finalist_to_json
from headtune.study.failing import misfit, nothing_trained
from headtune.study.finalists import choose_finalists
from headtune.study.reading import record_of
from headtune.study.record import StudyRecord
from headtune.study.shortlisting import agreement_findings, shortlist_of
from headtune.study.spec import StudySpec
from headtune.study.verifying import verify
from headtune.trial import Observer, Outcome, Silent, TrialRecord
from headtune.trial.setup import TrialSetup

FINISHED = "this study is finished already; ask for more trials or seeds to go on"


def search(spec: StudySpec, observer: Observer | None = None) -> StudyRecord:
    """Run the study to its end, or continue it; a finished one costs nothing.

    Raises:
        InputError: something given is wrong; no epoch was paid, but for a MetricError, which the first training shows.
        Infeasible: no plan can meet the constraints; the message says what is achievable.
        OtherDeviceError: a trial was timed on another device than the present plan; what came to its end is kept.
        TrialError: no trial was trained to its end, in the search or in the verification.
        KeyboardInterrupt: the person ended it; every finished trial is kept.
    """
    observer = observer or Silent()
    with open_ledger(spec) as ledger:
        if ledger.recall("finished") == _wish(spec):
            observer.note(FINISHED)
            return record_of(ledger)
        _go_on(spec, ledger, observer)
        return record_of(ledger)


def _wish(spec: StudySpec) -> dict[str, object]:
    """What a finished study has to have done."""
    return {"trials": spec.search.trials, "timeout_s": spec.search.timeout_s, "verify": asdict(spec.verify)}


def _go_on(spec: StudySpec, ledger: Ledger, observer: Observer) -> None:
    checked = check_and_remember(spec, ledger, observer)
    executor = executor_of(spec, observer)
    try:
        setup = prepare(spec, checked, ledger, executor, observer)
        shortlist = shortlist_of(spec, checked, ledger, setup, executor, observer)
        observer.phase("search", f"trials: {spec.search.trials}, legal plans: {checked.space.size:,}")
        broker = broker_of(spec, checked, ledger, setup, executor.slots, observer, shortlist)
        executor.run(broker, setup)
        if broker.misfit:
            ledger.abandon()
            raise misfit(broker.misfit)
        if broker.misplaced:
            raise OtherDeviceError(broker.misplaced)
        trials = ledger.trials()
        _tidy(setup, trials)
        chosen = _finalists(spec, trials, ledger, broker)
        mattered = influences(trials, checked.space, spec.params, spec.objectives, seed=spec.seed)
        ledger.remember("influences", [asdict(one) for one in mattered])
        finalists, verdict = verify(spec, setup, checked, chosen, ledger, executor, observer)
        _tidy(setup, ())
    finally:
        executor.close()
    ledger.remember("finalists", [finalist_to_json(finalist) for finalist in finalists])
    ledger.remember("verdict", asdict(replace(verdict, findings=(*verdict.findings, *agreement_findings(ledger)))))
    ledger.remember("finished", _wish(spec))


def _tidy(setup: TrialSetup, trials: Sequence[TrialRecord]) -> None:
    """Delete the checkpoints of trainings that nobody goes on with: each holds a model and its optimizer's state."""
    if setup.scratch is None:
        return
    for trial in trials:
        shutil.rmtree(setup.scratch / trial_key(trial.plan, trial.params, trial.repeat), ignore_errors=True)
    with suppress(OSError):  # others may keep files there
        setup.scratch.rmdir()


def _finalists(
    spec: StudySpec, trials: Sequence[TrialRecord], ledger: Ledger, broker: SearchBroker
) -> tuple[TrialRecord, ...]:
    """The trials to judge again.

    Raises:
        TrialError: no trial was trained to its end; the next start begins anew.
    """
    if not any(trial.outcome is Outcome.OK for trial in trials):
        ledger.abandon()
        raise nothing_trained(trials, broker.ending, spec.output)
    reference = ledger.recall("reference_point")
    return choose_finalists(trials, spec.objectives, reference, spec.verify.top, broker.believed)
