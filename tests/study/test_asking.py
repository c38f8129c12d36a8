"""What may be done with a trial that was asked by hand, and when."""

import math
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headtune.errors import InputError, MetricError, StorageError, StudyBusyError
from headtune.heads import Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.search import Ledger
from headtune.study import AskedTrial, Resources, Study
from headtune.trial import Outcome, TaskReference

QUALITY = Objective(metric="quality", direction="maximize")
PARAMETERS = Objective(metric="parameters", direction="minimize")
FILE = "study.db"


def study(folder: Path, **changes: object) -> Study:
    task = TaskReference(target="tiny.py:task", base=Path(__file__).parents[1] / "tasks").load()
    values = {
        "space": SpaceOptions(hold="width"),
        "weights": "fresh",
        "objectives": (QUALITY, PARAMETERS),
        "storage": f"sqlite:///{folder / FILE}",
        "epochs": 1,
    }
    return Study(task, **{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Study]:
    with study(tmp_path) as opened:
        yield opened


def built(study: Study) -> AskedTrial:
    trial = study.ask()
    trial.build()
    return trial


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        work()
    return str(caught.value)


def test_a_study_that_is_bound_to_a_machine_is_not_timed_in_this_process(tmp_path: Path) -> None:
    bound = study(tmp_path, resources=Resources(node="far"))
    assert refusal(bound.ask) == (
        "ask: it times in this process, which resources.node far does not bind; leave that out, or use run(), which "
        "places trials"
    )


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("last", "must be a whole number (got 'last')"),
        (None, "must be a whole number (got None)"),
        (1.5, "must be a whole number (got 1.5)"),
        (True, "must be a whole number (got True)"),
        (0, "must be at least 1 (got 0)"),
        (2**31, "must be at most 2147483647 (got 2147483648)"),
    ],
)
def test_a_step_that_is_none_is_refused_and_the_study_stays_readable(
    ours: Study, tmp_path: Path, step: int, sentence: str
) -> None:
    trial = built(ours)
    assert refusal(lambda: trial.report(step, quality=0.5)) == f"report: step: {sentence}"
    assert trial.report(2**31 - 1, quality=0.5) is False
    ours.tell(trial, {"quality": 0.5})
    assert study(tmp_path).record().trials[0].curve == ((2**31 - 1, 0.5),)


def test_steps_ascend(ours: Study) -> None:
    trial = built(ours)
    trial.report(3, quality=0.5)
    assert refusal(lambda: trial.report(3, quality=0.25)) == "report: step: must be at least 4 (got 3)"
    trial.report(5, quality=0.75)
    assert ours.tell(trial, {"quality": 1}).curve == ((3, 0.5), (5, 0.75))


@pytest.mark.parametrize("metrics", [{}, {"quality": "a"}, {"quality": None}, {"quality": [1]}, {"parameters": 1}])
def test_what_is_reported_must_be_numbers_of_the_tasks_own(ours: Study, metrics: dict[str, object]) -> None:
    trial = built(ours)
    with pytest.raises(MetricError, match=r"^report"):
        trial.report(1, **metrics)  # type: ignore[arg-type]
    trial.report(1, quality=0.5)
    assert ours.tell(trial, {"quality": 1}).curve == ((1, 0.5),)


@pytest.mark.parametrize("wild", [math.nan, math.inf])
def test_after_a_report_that_is_not_finite_more_epochs_are_not_worth_it(ours: Study, wild: float) -> None:
    trial = built(ours)
    assert trial.report(1, quality=wild) is True
    assert ours.tell(trial, {"quality": wild}).curve == ()


def test_odd_steps_in_the_database_leave_the_study_readable(ours: Study, tmp_path: Path) -> None:
    trial = built(ours)
    trial.report(1, quality=0.5)
    trial.report(2, quality=0.75)
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute("UPDATE trial_intermediate_values SET step = 'last' WHERE step = 2")
    assert study(tmp_path).record().trials[0].curve == ((1, 0.5),)
    ours.close()
    assert study(tmp_path).ask().plan == trial.plan, "it is asked again"


@pytest.mark.parametrize("nothing", [None, 0, "x"])
def test_what_is_no_trial_cannot_be_told(ours: Study, nothing: AskedTrial) -> None:
    assert refusal(lambda: ours.tell(nothing, {"quality": 1})) == (
        f"tell: trial must be one that ask() returned (got {nothing!r})"
    )


def test_a_trial_ends_once(ours: Study) -> None:
    trial = built(ours)
    ours.tell(trial, {"quality": 0.5})
    works: dict[str, Callable[[], object]] = {
        "tell": lambda: ours.tell(trial, {"quality": 0.9}),
        "report": lambda: trial.report(1, quality=0.9),
        "build": trial.build,
    }
    for verb, work in works.items():
        assert refusal(work) == f"{verb}: trial 0 has ended already; ask for the next one"
    assert ours.record().trials[0].metrics["quality"] == 0.5


def test_a_trial_of_another_study_is_told_there(ours: Study, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    mine = built(ours)
    with study(tmp_path / "other") as other:
        theirs = built(other)
        assert refusal(lambda: ours.tell(theirs, {"quality": 0.7})) == (
            "tell: trial 0 was asked by another study; tell it there"
        )
        other.tell(theirs, {"quality": 0.3})
    assert ours.tell(mine, {"quality": 0.1}).metrics["quality"] == 0.1


@pytest.mark.parametrize("again", [False, True])
def test_a_closed_study_takes_nothing_of_its_earlier_trials(ours: Study, tmp_path: Path, again: bool) -> None:
    stale = built(ours)
    ours.close()
    fresh = ours.ask() if again else None
    works: dict[str, Callable[[], object]] = {
        "tell": lambda: ours.tell(stale, {"quality": 0.9}),
        "report": lambda: stale.report(1, quality=0.9),
        "build": stale.build,
    }
    for verb, work in works.items():
        assert refusal(work) == (
            f"{verb}: trial 0: its study was closed since; ask again: what was not told is asked anew"
        )
    if fresh is not None:
        assert fresh.plan == stale.plan
        fresh.build()
        assert ours.tell(fresh, {"quality": 0.5}).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("wishes", "measured"),
    [
        ({}, "parameters"),
        ({"objectives": (QUALITY,), "constraints": (Limit(metric="parameters", max=9e9),)}, "parameters"),
    ],
)
def test_what_is_measured_must_be_built_before_it_is_told(
    tmp_path: Path, wishes: dict[str, object], measured: str
) -> None:
    with study(tmp_path, **wishes) as ours:
        trial = ours.ask()
        assert refusal(lambda: ours.tell(trial, {"quality": 0.5})) == (
            f"tell: trial 0 was not built, which measures {measured}; call its build() first"
        )
        trial.build()
        assert ours.tell(trial, {"quality": 0.5}).outcome is Outcome.OK


def test_where_nothing_is_measured_building_is_the_persons_own(tmp_path: Path) -> None:
    with study(tmp_path, objectives=(QUALITY,)) as ours:
        assert ours.tell(ours.ask(), {"quality": 0.5}).outcome is Outcome.OK


def test_without_the_lease_nothing_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = study(tmp_path)
    trial = built(ours)
    ledger: Ledger = trial.asking.ledger
    taken = ledger.recall("lease")
    ledger.remember("lease", {**taken, "holder": {**taken["holder"], "id": "another"}})
    monkeypatch.setattr("headtune.search.lease._BEAT_S", 0)
    works: list[Callable[[], object]] = [
        ours.ask,
        trial.build,
        lambda: trial.report(1, quality=0.5),
        lambda: ours.tell(trial, {"quality": 0.5}),
    ]
    for work in works:
        with pytest.raises(StudyBusyError, match="was taken over"):
            work()
    assert [record.curve for record in ours.record().trials] == [()]


def test_a_process_forked_from_the_driver_is_told_so_and_leaves_the_study_alone(ours: Study) -> None:
    trial = built(ours)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        works = [ours.ask, trial.build, lambda: trial.report(1, quality=9), lambda: ours.tell(trial, {"quality": 9})]
        told = [refusal(work) for work in works]
        ours.close()
        os.write(writing, "\n".join(told).encode())
        os._exit(0)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    told = os.read(reading, 10_000).decode().splitlines()
    os.close(reading)
    why = f"process {os.getpid()} has the study, and forked this one; do it there"
    assert told == [f"ask: {why}", *(f"{verb}: trial 0: {why}" for verb in ("build", "report", "tell"))]
    assert ours.tell(trial, {"quality": 0.5}).curve == ()


def test_a_moved_file_takes_nothing_more(ours: Study, tmp_path: Path) -> None:
    trial = built(ours)
    moved = tmp_path / "moved.db"
    (tmp_path / FILE).rename(moved)
    for work in (ours.ask, trial.build, lambda: ours.tell(trial, {"quality": 0.5}), ours.close):
        with pytest.raises(StorageError, match=re.escape(f"{tmp_path / FILE} was removed or replaced")):
            work()
    assert not (tmp_path / FILE).exists()
    moved.rename(tmp_path / FILE)
    assert ours.ask().plan == trial.plan


def test_a_trial_shows_what_it_wants(ours: Study) -> None:
    trial = ours.ask()
    assert repr(trial) == f"AskedTrial(0, '{trial.plan.label}', params={{}})"
    assert isinstance(trial.seed, int)
