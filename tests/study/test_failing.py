"""Whole messages of trainings that came to nothing."""

from pathlib import Path

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.study.failing import misfit, nothing_retrained, nothing_trained, shortfall
from headtune.trial import Outcome, TrialRecord

PLAN = HeadPlan.of({"a": HeadCount(4, 4, 16)})


def trial(outcome: Outcome | None, message: str = "") -> TrialRecord:
    return TrialRecord(
        number=0,
        kind="search",
        label="",
        plan=PLAN,
        params={},
        repeat=0,
        seed=0,
        outcome=outcome,
        message=message,
    )


def test_each_reason_is_told_once_with_how_often_it_came() -> None:
    trials = [
        trial(Outcome.CRASHED, "raised an error: the data is broken"),
        trial(Outcome.OUT_OF_MEMORY, "ran out of memory."),
        trial(Outcome.CRASHED, "raised an error: the data is broken"),
        trial(Outcome.INFEASIBLE, "breaks latency_ms by 1"),
        trial(Outcome.INFEASIBLE, "breaks latency_ms by 2"),
        trial(None),
    ]
    error = nothing_trained(trials, "", None)
    assert error.exit_code == 1
    assert error.problems == (
        "no trial was trained to its end; 2 of 5: raised an error: the data is broken",
        "no trial was trained to its end; 1 of 5: ran out of memory",
        "no trial was trained to its end; 2 of 5: breaks latency_ms by 1; "
        "mend the cause and run the same study again: it begins anew",
    )


@pytest.mark.parametrize(
    ("ending", "why"),
    [("", "none was started"), ("the timeout of 1 s is over with 0 of 8 trials trained",) * 2],
)
@pytest.mark.parametrize("trials", [[], [trial(None)]])
def test_a_search_that_ended_before_any_trial_did_says_what_to_change(
    ending: str, why: str, trials: list[TrialRecord]
) -> None:
    assert nothing_trained(trials, ending, None).problems == (
        f"no trial was trained: {why}; give it more time (search.timeout in a study file, timeout_s in Python) and run "
        "it again: it begins anew",
    )


def test_a_log_is_named_only_where_it_is(tmp_path: Path) -> None:
    failed = [trial(Outcome.CRASHED, "raised an error")] * 3
    words = (
        "verify: the plans that may be recommended were trained again, and none of these 3 trainings came to its end; "
        "the first: raised an error; {}mend the cause and run the same study again: the search is kept, the trainings "
        "that failed are tried again"
    )
    assert str(nothing_retrained(failed, tmp_path)) == words.format("")
    (tmp_path / "headtune.log").touch()
    assert str(nothing_retrained(failed, tmp_path)) == words.format(
        f"each traceback is in {tmp_path / 'headtune.log'}; "
    )


def test_a_shortfall_says_whether_anything_is_left() -> None:
    failed = [trial(Outcome.DIVERGED, "loss nan after report 3: not finite")] * 2
    assert shortfall("4-4", failed, 3) == (
        "4-4 is judged by 1 of 3 trainings: the others did not come to their end; the first of these: "
        "loss nan after report 3: not finite."
    )
    assert shortfall("4-4 with lr 0.1", failed, 2) == (
        "4-4 with lr 0.1 is not judged: none of its 2 trainings came to its end; the first: "
        "loss nan after report 3: not finite."
    )


def test_a_task_that_reports_other_things_says_what_to_mend() -> None:
    error = misfit("never reported quality; it reported loss")
    assert error.exit_code == 2
    assert str(error) == (
        "the task does not fit the study, as its first training shows: never reported quality; it reported loss; mend "
        "the task, or name in objectives what it reports, and run the same study again: it begins anew"
    )
