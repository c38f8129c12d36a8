import resource
import signal
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from headtune.errors import StorageError
from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.search.book import ATTEMPTS, TrialBook, told
from headtune.search.draft import Draft
from headtune.search.storage import open_storage
from headtune.search.studies import open_study
from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.trial import Measurement, Outcome, TrialRecord

GOALS = (
    Objective(metric="bleu", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)
PLAN = HeadPlan.of({"a": HeadCount(4, 2, 8), "b": HeadCount(2, 2, 8)})
BORN = TrialRecord(
    number=-1, kind="search", label="", plan=PLAN, params={"lr": 0.1, "act": "gelu"}, repeat=0, seed=5, outcome=None
)
PROFILE = LatencyProfile(
    protocol=LatencyProtocol(device="cpu", threads=1),
    median_ms=1.23456789012345,
    p90_ms=1.5,
    interval_ms=(1.2, 1.3),
    ratio=0.5,
    ratio_interval=(0.49, 0.51),
    reference_median_ms=2.5,
    samples=31,
    settled=True,
    contended=False,
    device_name="a cpu",
    versions={"torch": "2"},
)
MEASURED = Measurement(
    metrics={"parameters": 1234, "latency_ms": 1.0000000000000002},
    latency=PROFILE,
    violations={"memory": -3.0, "latency_ms": 0.5},
)


@pytest.fixture
def storage(url: str) -> RDBStorage:
    return open_storage(url, create=True)


@pytest.fixture
def book(storage: RDBStorage) -> TrialBook:
    return TrialBook(storage, open_study(storage, "vit", GOALS), GOALS, ("latency_ms", "memory"))


def begin(book: TrialBook, **changes: object) -> TrialRecord:
    return book.begin(replace(BORN, **changes), {}, {})  # type: ignore[arg-type]


def optuna_trial(storage: RDBStorage, number: int) -> FrozenTrial:
    return optuna.load_study(study_name="vit", storage=storage).trials[number]


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("shorter", [{}, {8: PROFILE, 16: replace(PROFILE, ratio=0.75)}])
def test_a_record_comes_back_exactly(
    storage: RDBStorage, book: TrialBook, outcome: Outcome, shorter: dict[int, LatencyProfile]
) -> None:
    record = begin(book, kind="baseline", label="rule", seconds={"ask": 0.1})
    record = book.measured(record, replace(MEASURED, shorter=shorter))
    for step, value in ((1, 0.25), (3, 1 / 3)):
        record = book.reported(record, step, value)
    record = replace(
        record,
        message="wörds\nof more than one line",
        metrics={**record.metrics, "bleu": 27.300000000000004, "other": float("inf")},
        test_metrics={"test_bleu": 26.1},
        seconds={"ask": 0.1, "train": 3.0},
    )
    ended = book.finish(record, outcome)
    assert ended == replace(record, outcome=outcome, ended=ended.ended)
    assert ended.started is not None
    assert ended.ended is not None
    assert ended.started <= ended.ended
    assert TrialBook(storage, open_study(storage, "vit", GOALS), GOALS).records() == (ended,)


def test_optuna_sees_values_constraints_and_curve(storage: RDBStorage, book: TrialBook) -> None:
    encoded = {"a": 1, "b": 0}
    record = book.begin(
        BORN, encoded, {"a": IntDistribution(0, 3), "b": IntDistribution(0, 1), "c": IntDistribution(0, 1)}
    )
    record = book.reported(book.measured(record, MEASURED), 1, 0.5)
    book.finish(replace(record, metrics={**record.metrics, "bleu": 27.3}), Outcome.OK)
    trial = optuna_trial(storage, 0)
    assert (trial.params, trial.values, trial.intermediate_values) == (encoded, [27.3, 1.0000000000000002], {1: 0.5})
    assert trial.constraints == {"0": 0.5, "1": -3.0}, "in the order of the limits, not of the measurement"
    assert trial.user_attrs["violations"] == {"memory": -3.0, "latency_ms": 0.5}


def test_records_are_in_the_order_of_their_numbers_and_of_this_study_only(storage: RDBStorage, book: TrialBook) -> None:
    other = TrialBook(storage, open_study(storage, "lm", GOALS), GOALS)
    first, second = begin(book), begin(book)
    begin(other)
    book.finish(second, Outcome.CRASHED)
    book.finish(first, Outcome.CRASHED)
    storage.create_new_trial(open_study(storage, "vit", GOALS), create_trial(state=TrialState.WAITING))
    assert [record.number for record in book.records()] == [0, 1]
    assert [record.number for record in other.records()] == [0]


def test_a_superseded_attempt_is_started_again_and_never_listed(storage: RDBStorage, book: TrialBook) -> None:
    record = book.reported(begin(book), 1, 0.5)
    book.supersede(record.number, "lost", "its worker died")
    assert book.records() == ()
    assert book.take_over("")[1] == (replace(Draft.of(BORN), curve=((1, 0.5),)),)
    trial = optuna_trial(storage, 0)
    assert (trial.state, trial.user_attrs["outcome"]) == (TrialState.FAIL, "lost")
    assert trial.user_attrs["reason"] == "its worker died"
    book.finish(begin(book), Outcome.CRASHED)
    assert book.take_over("")[1] == ()
    assert len(book.records()) == 1


def test_another_repeat_is_another_training(book: TrialBook) -> None:
    book.supersede(begin(book, repeat=1).number, "stale", "")
    book.finish(begin(book, repeat=2), Outcome.CRASHED)
    assert [draft.repeat for draft in book.take_over("")[1]] == [1]


def test_a_new_driver_lets_no_trial_run_on(storage: RDBStorage, book: TrialBook) -> None:
    begin(book, repeat=1)
    done = book.finish(begin(book, repeat=2), Outcome.CRASHED)
    begin(book, repeat=3)
    fresh = TrialBook(storage, open_study(storage, "vit", GOALS), GOALS)
    fresh.release("its driver ended")
    assert [trial.state.name for trial in storage.get_all_trials(1)] == ["FAIL", "FAIL", "FAIL"]
    assert fresh.records() == (done,)
    assert [draft.repeat for draft in fresh.take_over("")[1]] == [1, 3]


def test_a_training_that_ends_its_process_again_and_again_counts_as_crashed(book: TrialBook) -> None:
    for attempt in range(ATTEMPTS):
        assert len(book.take_over("")[1]) == min(attempt, 1)
        begin(book)
        book.release("its driver ended")
    assert book.take_over("")[1] == ()
    (record,) = book.records()
    assert (record.outcome, record.message) == (
        Outcome.CRASHED,
        f"ended its process {ATTEMPTS} times: its driver ended",
    )


def test_a_training_that_gets_further_each_time_is_never_given_up(book: TrialBook) -> None:
    """Hours on a machine that is taken away every hour: each attempt goes on from the last one's checkpoint."""
    for attempt in range(1, 2 * ATTEMPTS):
        book.reported(begin(book), attempt, 0.5)
        book.release("its driver ended")
    assert len(book.take_over("")[1]) == 1
    for _ in range(ATTEMPTS - 1):
        book.reported(begin(book), 1, 0.5)
        book.release("its driver ended")
    assert [record.outcome for record in book.records()] == [Outcome.CRASHED]


def test_a_trial_that_someone_ended_in_the_dashboard_is_left_as_it_is(storage: RDBStorage, book: TrialBook) -> None:
    record = book.measured(begin(book), MEASURED)
    optuna.load_study(study_name="vit", storage=storage).tell(record.number, state=TrialState.FAIL)
    record = book.reported(record, 1, 0.5)
    ended = book.finish(replace(record, metrics={"bleu": 1.0, "latency_ms": 1.0}), Outcome.OK)
    assert ended.outcome is Outcome.CRASHED
    assert book.records() == (ended,)


def test_a_deleted_study_is_said_in_words(storage: RDBStorage, book: TrialBook) -> None:
    record = begin(book)
    optuna.delete_study(study_name="vit", storage=storage)
    for write in (lambda: book.reported(record, 1, 0.5), lambda: begin(book), book.records):
        with pytest.raises(StorageError) as caught:
            write()
        assert str(caught.value) == ("storage: the study was deleted while it ran; run the command again to begin anew")


def fill_up(book: TrialBook, record: TrialRecord) -> None:
    for step in range(1, 10_000):
        book.reported(record, step, 0.5)


def test_a_full_disk_is_said_in_words(tmp_path: Path, storage: RDBStorage, book: TrialBook) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = max(path.stat().st_size for path in tmp_path.iterdir())
    record = begin(book)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        with pytest.raises(StorageError) as caught:
            fill_up(book, record)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert str(caught.value).startswith("storage: the database failed (")
    assert str(caught.value).endswith(
        "; free its disk or bring it back, then run the same command again: at most the trials in flight are lost"
    )
    assert book.reported(record, 1, 0.5).curve == ((1, 0.5),), "it works again once there is room"


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), told():
        raise ZeroDivisionError


def test_where_nothing_runs_taking_over_reads_the_trials_once(
    storage: RDBStorage, book: TrialBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = book.finish(begin(book), Outcome.CRASHED)
    whole, read = storage.get_all_trials, []

    def counted(study_id: int, deepcopy: bool = True, states: object = None) -> object:
        found = whole(study_id, deepcopy, states)  # type: ignore[arg-type]
        read.append(len(found))
        return found

    monkeypatch.setattr(storage, "get_all_trials", counted)
    assert book.take_over("its driver ended") == ((done,), ())
    assert read == [0, 1]
