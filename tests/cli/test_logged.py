import logging
from dataclasses import replace

import pytest

from headtune.cli.logged import Logged
from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.trial import Outcome, Silent, TrialRecord

GOALS = (Objective(metric="acc", direction="maximize"),)
RUNNING = TrialRecord(
    number=7,
    kind="search",
    label="rule",
    plan=HeadPlan.of({"a": HeadCount(8, 8, 8)}),
    params={},
    repeat=0,
    seed=0,
    outcome=None,
)


class Heard(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def phase(self, name: str, detail: str = "") -> None:
        self.calls.append(("phase", name, detail))

    def note(self, message: str) -> None:
        self.calls.append(("note", message))

    def plan(self, trials: int, finished: int) -> None:
        self.calls.append(("plan", trials, finished))

    def trial(self, record: TrialRecord) -> None:
        self.calls.append(("trial", record))


def test_everything_is_passed_on_and_what_matters_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    observer = Logged(heard, GOALS)
    ended = replace(RUNNING, outcome=Outcome.OK, metrics={"acc": 0.9})
    crashed = replace(RUNNING, number=8, label="", outcome=Outcome.CRASHED, message="the data is 100 % broken")
    with caplog.at_level(logging.INFO, logger="headtune"):
        observer.phase("search", "6 trials")
        observer.plan(6, 2)
        observer.note("sampler: 50 % of %s")
        for record in (RUNNING, ended, crashed):
            observer.trial(record)
    assert heard.calls == [
        ("phase", "search", "6 trials"),
        ("plan", 6, 2),
        ("note", "sampler: 50 % of %s"),
        ("trial", RUNNING),
        ("trial", ended),
        ("trial", crashed),
    ]
    assert caplog.messages == [
        "search: 6 trials",
        "search: 2 of 6 trials done",
        "sampler: 50 % of %s",
        "search: trial 7 (rule) 8: ok: acc 0.9",
        "search: trial 8 8: crashed: the data is 100 % broken",
    ]
