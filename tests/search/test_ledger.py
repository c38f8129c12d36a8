import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from optuna.trial import create_trial

from headtune.errors import StorageError, StudyBusyError, StudyChangedError
from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.search import Ledger
from headtune.search.storage import open_storage
from headtune.trial import Outcome, TrialRecord

GOALS = (
    Objective(metric="val_accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)
PLAN = HeadPlan.of({"a": HeadCount(4, 4, 8)})


def opened(url: str, name: str = "vit", goals: tuple[Objective, ...] = GOALS, **fingerprint: object) -> Ledger:
    return Ledger.open(url, name, objectives=goals, fingerprint={"seed": 0} | fingerprint, manifest={"trials": 40})


def record(**changes: object) -> TrialRecord:
    known = {"kind": "search", "label": "", "plan": PLAN, "params": {}, "repeat": 0, "seed": 0, "outcome": None}
    return TrialRecord(number=-1, **(known | changes))  # type: ignore[arg-type]


def test_a_study_is_begun_and_continued(url: str) -> None:
    with opened(url) as ledger:
        assert (ledger.name, ledger.objectives, ledger.manifest) == ("vit", GOALS, {"trials": 40})
        assert ledger.trials() == ledger.verify_trials() == ()
        ledger.remember("reference_point", [0.5, 3.0])
        book = ledger.book()
        done = book.finish(book.begin(record(), {}, {}), Outcome.CRASHED)
    with Ledger.open(url, "vit", objectives=GOALS, fingerprint={"seed": 0}, manifest={"trials": 80}) as ledger:
        assert ledger.trials() == (done,)
        assert ledger.recall("reference_point") == [0.5, 3.0]
        assert ledger.recall("never") is None
        assert ledger.manifest == {"trials": 80}


def test_a_closed_study_is_one_plain_file(url: str, tmp_path: Path) -> None:
    opened(url).close()
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["study.db"]
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_same_process_cannot_open_a_study_twice(url: str) -> None:
    with opened(url):
        with pytest.raises(StudyBusyError) as caught:
            opened(url)
        assert re.fullmatch(
            rf"study 'vit' is being run by process {os.getpid()} on \S+, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d; "
            "end that one first, or choose another name or output",
            str(caught.value),
        )
        opened(url, "another").close()
    opened(url).close()


def in_a_fork(work: Callable[[], None]) -> int:
    """Run *work* in another process that then sleeps; its pid, once the work is done."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        work()
        os.write(writing, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return child


def test_a_killed_driver_frees_the_study_at_once_and_its_trials_are_started_again(url: str) -> None:
    held: list[Ledger] = []

    def drive() -> None:
        held.append(opened(url))
        held[0].book().begin(record(), {}, {})
        held[0].verify_book().begin(record(kind="verify", repeat=1), {}, {})

    child = in_a_fork(drive)
    with pytest.raises(StudyBusyError, match=f"process {child} on "):
        opened(url)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with opened(url) as ledger:
        assert ledger.trials() == ledger.verify_trials() == ()
        assert [draft.plan for draft in ledger.book().take_over("")[1]] == [PLAN]
        assert [draft.repeat for draft in ledger.verify_book().take_over("")[1]] == [1]
    for study in optuna.get_all_study_names(url):
        (trial,) = optuna.load_study(study_name=study, storage=url).trials
        assert (trial.state.name, trial.user_attrs["outcome"]) == ("FAIL", "stale")
        assert trial.user_attrs["reason"] == "its driver ended while it ran; the same training is started again"


def test_closing_lets_no_trial_run_on(url: str) -> None:
    with opened(url) as ledger:
        ledger.book().begin(record(), {}, {})
        assert len(ledger.trials()) == 1
    assert Ledger.read(url, "vit").trials() == ()
    with opened(url) as ledger:
        assert len(ledger.book().take_over("")[1]) == 1


def test_a_changed_study_is_refused_with_every_change_and_left_alone(url: str) -> None:
    with opened(url, space={"heads": [1, 2]}) as ledger:
        ledger.book().begin(record(), {}, {})
    other = (Objective(metric="val_accuracy", direction="maximize"),)
    with pytest.raises(StudyChangedError) as caught:
        opened(url, goals=other, space={"heads": "auto"})
    assert str(caught.value) == (
        "2 problems:\n"
        '  - objectives: was [{"metric": "val_accuracy", "direction": "maximize"}, '
        '{"metric": "latency_ms", "direction": "minimize"}] when study \'vit\' began, is now '
        '[{"metric": "val_accuracy", "direction": "maximize"}]\n'
        "  - space.heads: was [1, 2] when study 'vit' began, is now \"auto\"; "
        "more trials or other resources are fine; for anything else change it back, or choose another name or output"
    )
    with opened(url, space={"heads": [1, 2]}) as ledger:
        assert ledger.objectives == GOALS


def test_a_study_that_never_started_a_trial_may_still_change(url: str) -> None:
    with opened(url, space={"heads": [1, 2]}) as ledger:
        ledger.remember("profile", "of the old space")
    goals = GOALS[:1]
    with opened(url, goals=goals, space={"heads": "auto"}) as ledger:
        assert ledger.objectives == goals
        assert ledger.recall("profile") is None
    with opened(url, goals=goals, space={"heads": "auto"}) as ledger:
        assert ledger.recall("lease")["holder"]["pid"] == os.getpid()


def test_an_abandoned_study_can_be_read_until_it_begins_anew(url: str) -> None:
    with opened(url) as ledger:
        book = ledger.book()
        crashed = book.finish(book.begin(record(), {}, {}), Outcome.CRASHED)
        ledger.abandon()
    assert Ledger.read(url, "vit").trials() == (crashed,)
    with opened(url, seed=1) as ledger:
        assert ledger.trials() == ()
        book = ledger.book()
        done = book.finish(book.begin(record(), {}, {}), Outcome.CRASHED)
    with opened(url, seed=1) as ledger:
        assert ledger.trials() == (done,)


def test_a_study_of_something_else_is_refused(url: str) -> None:
    storage = open_storage(url, create=True)
    optuna.create_study(study_name="theirs", storage=storage).add_trial(create_trial(value=1.0))
    with pytest.raises(StorageError) as caught:
        opened(url, "theirs", GOALS)
    assert str(caught.value) == (f"storage: the study 'theirs' in {url} was not made by headtune; choose another name")


def test_a_study_of_another_layout_is_refused(url: str) -> None:
    with opened(url) as ledger:
        ledger.remember("version", 99)
    with pytest.raises(StorageError) as caught:
        opened(url)
    assert str(caught.value) == (
        f"storage: the study 'vit' in {url} has layout 99, this headtune knows 1; "
        "install the version that made it, or choose another name"
    )


def test_a_driver_that_was_killed_while_it_made_the_study_is_forgiven(url: str) -> None:
    storage = open_storage(url, create=True)
    optuna.create_study(study_name="vit", storage=storage, directions=["maximize", "minimize"])
    with opened(url) as ledger:
        assert ledger.trials() == ()


def test_anyone_may_read_while_a_driver_runs(url: str) -> None:
    with opened(url) as ledger:
        running = ledger.book().begin(record(), {}, {})
        view = Ledger.read(url, "vit")
        assert view.trials() == (running,)
        assert (view.name, view.objectives, view.manifest) == ("vit", GOALS, {"trials": 40})
        ledger.remember("elapsed_s", 3.5)
        assert view.recall("elapsed_s") == 3.5
        assert view.verify_trials() == ()


def test_reading_what_is_not_there_is_refused_in_words_and_makes_nothing(url: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no "):
        Ledger.read(url, "vit")
    assert list(tmp_path.iterdir()) == []
    opened(url, "lm").close()
    opened(url, "vit").close()
    with pytest.raises(StorageError) as caught:
        Ledger.read(url, "bert")
    assert str(caught.value) == f"storage: {url} has no study 'bert'; it has lm, vit"


def test_retrainings_are_a_study_of_their_own_over_the_tasks_own_objectives(url: str) -> None:
    with opened(url) as ledger:
        assert optuna.get_all_study_names(url) == ["vit"], "none is made before it is needed"
        book = ledger.verify_book()
        begun = book.begin(record(kind="verify", repeat=1), {}, {})
        ended = book.finish(
            TrialRecord(**{**{n: getattr(begun, n) for n in begun.__slots__}, "metrics": {"val_accuracy": 0.5}}),
            Outcome.OK,
        )
        assert ledger.verify_trials() == (ended,)
        assert ledger.trials() == ()
    study = optuna.load_study(study_name="vit (verify)", storage=url)
    assert (study.metric_names, study.trials[0].values) == (["val_accuracy"], [0.5])


def test_a_driver_that_lost_the_study_leaves_it_alone_when_it_closes(url: str) -> None:
    ledger = opened(url)
    ledger.book().begin(record(), {}, {})
    taken = ledger.recall("lease")
    taken["holder"]["id"] = "another"
    ledger.remember("lease", taken)
    ledger.close()
    view = Ledger.read(url, "vit")
    assert [trial.outcome for trial in view.trials()] == [None]
    assert view.recall("lease") == taken


def test_no_password_reaches_a_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        opened(f"sqlite://ann:hunter2@/{tmp_path}/study.db")
    assert "hunter2" not in str(caught.value)


def without_its_name(url: str, work: Callable[[Ledger], None]) -> str:
    """What *work* raises once the file of a running study was moved away, and that none was made in its place."""
    path = Path(url.removeprefix("sqlite:///"))
    ledger = opened(url)
    path.rename(path.with_suffix(".moved"))
    with pytest.raises(StorageError) as caught:
        work(ledger)
    with pytest.raises(StorageError):
        ledger.close()
    assert not path.exists()
    path.with_suffix(".moved").rename(path)
    opened(url).close()
    return str(caught.value)


@pytest.mark.parametrize("work", [Ledger.beat, lambda ledger: ledger.remember("finished", 1), Ledger.close])
def test_a_file_that_is_moved_away_ends_the_driver_and_moved_back_it_goes_on(
    url: str, work: Callable[[Ledger], None]
) -> None:
    path = url.removeprefix("sqlite:///")
    assert without_its_name(url, work) == (
        f"storage: {path} was removed or replaced while the study ran; move it back to go on, "
        "or run the command again to begin anew"
    )


def test_a_file_that_takes_the_place_of_the_studys_is_left_alone(url: str) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    ledger = opened(url)
    path.rename(path.with_suffix(".moved"))
    path.write_text("another")
    for work in (ledger.beat, ledger.close):
        with pytest.raises(StorageError, match="was removed or replaced while the study ran"):
            work()
    assert path.read_text() == "another"


@pytest.mark.parametrize(
    "work",
    [Ledger.beat, lambda ledger: ledger.remember("finished", 1), lambda ledger: ledger.recall("lease"), Ledger.close],
)
def test_a_process_forked_from_the_driver_ends_where_it_drives_on(url: str, work: Callable[[Ledger], object]) -> None:
    with opened(url) as ledger:
        child = os.fork()
        if child == 0:
            work(ledger)
            os._exit(9)  # never reached
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ledger.recall("finished") is None
        assert ledger.recall("lease")["holder"]["pid"] == os.getpid()
        ledger.beat()
