import pytest

from headtune.heads.plan import HeadCount, HeadPlan
from headtune.trial.contract import Observer, Signal, Silent
from headtune.trial.record import TrialRecord


def test_a_broker_without_a_trial_says_wait_or_done() -> None:
    assert {signal.value for signal in Signal} == {"wait", "done"}


def test_silent_hears_everything_and_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silent: Observer = Silent()
    plan = HeadPlan.of({"attn": HeadCount(4, 4, 16)})
    silent.phase("search", "8 trials")
    silent.note("a word")
    silent.plan(8, 2)
    silent.trial(TrialRecord(number=0, kind="search", label="", plan=plan, params={}, repeat=0, seed=0, outcome=None))
    assert capsys.readouterr() == ("", "")
