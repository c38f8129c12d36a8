"""The life of a study: check, profile, search, verify. Running it again continues where it stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from headtune.errors import StudyChangedError
from headtune.execute import InlineExecutor, RayExecutor
from headtune.search import Ledger, SearchBroker
from headtune.study.checking import Checked, baseline_params, check
from headtune.study.facts import finalist_to_json, plans_to_json, range_from_json, range_to_json, sites_to_json
from headtune.study.finalists import choose_finalists
from headtune.study.fingerprint import fingerprint, versions
from headtune.study.preparing import protocol_of, trial_setup
from headtune.study.profiling import Profile, profile, resolve_limits
from headtune.study.reading import record_of
from headtune.study.record import StudyRecord
from headtune.study.spec import StudySpec
from headtune.study.verifying import verify
from headtune.trial.contract import Executor, Observer, Silent


def search(spec: StudySpec, observer: Observer | None = None) -> StudyRecord:
    """Run the study to its end, or continue it; a finished one costs nothing.

    Raises:
        InputError: something given is wrong; nothing was paid.
        Infeasible: no plan can meet the constraints; the message says what is achievable.
        KeyboardInterrupt: the person ended it; every finished trial is kept.
    """
    observer = observer or Silent()
    with open_ledger(spec) as ledger:
        if _finished(ledger, spec):
            observer.note("this study is finished: nothing to do; ask for more trials to go on")
            return record_of(ledger)
        checked = check(spec, observer)
        remember_manifest(ledger, spec, checked)
        executor = executor_of(spec)
        try:
            _search_and_verify(spec, checked, ledger, executor, observer)
        finally:
            executor.close()
        return record_of(ledger)
