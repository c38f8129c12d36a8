"""``kill -9`` of the driver at any moment: nothing finished is lost or repeated, nothing is left running."""

import os
import random
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import ModuleType

import optuna
import pytest

from headtune.search import Ledger, ReplayBroker, Retraining, SearchBroker, SearchRules, Wanted
from headtune.trial import Silent, TrialRecord

TRIALS = 24


class Killer(Silent):
    """Kills its own process a moment after so many trials have ended: by work done, since a clock fits one machine."""

    def __init__(self, ended: int, delay_s: float) -> None:
        self._left, self._delay_s = ended, delay_s

    def trial(self, record: TrialRecord) -> None:
        self._left -= record.outcome is not None
        if self._left == 0:
            threading.Timer(self._delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()


def drive_in_a_fork(kit: ModuleType, url: str, *, slots: int, verify: bool, observer: Silent) -> int:
    """Start a driver in a process of its own; its pid."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with kit.open_ledger(url) as ledger:
            rules = SearchRules(sampler="tpe", trials=TRIALS, epochs=4, limits=("latency_ms",), concurrent=slots)
            baselines = {"present": kit.plan_of(8, 8, 8, 8), "rule": kit.plan_of(1, 1, 1, 1)}
            search = SearchBroker(ledger, kit.space_of(), rules, baselines=baselines, observer=observer)
            kit.drive(search, kit.Problem(limit=7.0), slots=slots)
            if verify:
                needed = [Retraining(plan=kit.plan_of(8, 8, 8, 8), repeat=repeat) for repeat in range(1, 7)]
                replay = ReplayBroker(
                    ledger, lambda _: Wanted(needed=needed), seed=0, epochs=4, concurrent=slots, observer=observer
                )
                kit.drive(replay, kit.Problem(), slots=slots)
        code = 0
    finally:
        os._exit(code)


def finished(url: str) -> list[TrialRecord]:
    view = Ledger.read(url, "study")
    return [record for record in (*view.trials(), *view.verify_trials()) if record.outcome is not None]


def kill_until_done(kit: ModuleType, url: str, *, slots: int, kills: int, verify: bool, seed: int) -> int:
    """Kill drivers at random moments, then let one come to its end; how many were killed in mid-work."""
    moments = random.Random(seed)
    killed = 0
    known: list[TrialRecord] = []
    for round_number in range(kills + 1):
        observer = Killer(moments.randint(1, 4), moments.uniform(0.0, 0.03)) if round_number < kills else Silent()
        child = drive_in_a_fork(kit, url, slots=slots, verify=verify, observer=observer)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
        try:
            now = finished(url)
        except Exception:  # the very first driver may die before there is a study
            assert known == []
            continue
        assert [record for record in known if record not in now] == [], "a finished trial was lost or changed"
        known = now
    return killed


@pytest.mark.parametrize(("slots", "seed"), [(1, 1), (3, 2)])
def test_a_search_survives_kills_of_its_driver(kit: ModuleType, url: str, slots: int, seed: int) -> None:
    assert kill_until_done(kit, url, slots=slots, kills=6, verify=True, seed=seed) >= 3
    view = Ledger.read(url, "study")
    trials, retrained = view.trials(), view.verify_trials()
    assert sum(record.outcome.trained for record in trials if record.outcome) == TRIALS
    assert max(Counter(record.plan for record in trials).values()) == 1, "no plan is trained twice"
    assert [record.label for record in trials if record.kind == "baseline"] == ["present", "rule"]
    assert Counter(record.repeat for record in retrained) == dict.fromkeys(range(1, 7), 1)
    for name in optuna.get_all_study_names(url):
        states = {trial.state.name for trial in optuna.load_study(study_name=name, storage=url).trials}
        assert "RUNNING" not in states
        assert "WAITING" not in states
    assert view.recall("lease") is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kills_of_other_seeds(kit: ModuleType, url: str, seed: int, tmp_path: Path) -> None:
    kill_until_done(kit, url, slots=1 + seed % 3, kills=10, verify=True, seed=100 + seed)
    trials = Ledger.read(url, "study").trials()
    assert sum(record.outcome.trained for record in trials if record.outcome) == TRIALS
    assert len({record.plan for record in trials}) == len(trials)
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
