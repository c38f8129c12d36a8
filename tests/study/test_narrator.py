"""What a study in Python says on stderr."""

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.study.narrator import Narrator
from headtune.trial import Outcome, TrialRecord


def record(number: int, outcome: Outcome | None, message: str = "", **metrics: float) -> TrialRecord:
    return TrialRecord(
        number=number,
        kind="search",
        label="",
        plan=HeadPlan.of({"a": HeadCount(4, 4, 8), "b": HeadCount(2, 2, 16)}),
        params={},
        repeat=0,
        seed=0,
        outcome=outcome,
        message=message,
        metrics=metrics,
    )


def test_phases_notes_and_endings_are_lines_and_nothing_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator()
    narrator.phase("search", "3 trials")
    narrator.plan(3, 1)
    narrator.note("sampler gp: as asked")
    narrator.trial(record(1, None))
    narrator.trial(record(1, Outcome.OK, acc=0.51234, latency_ms=1.5))
    narrator.trial(record(2, Outcome.CRASHED, "raised an error: no"))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "headtune: search: 3 trials",
        "headtune: sampler gp: as asked",
        "headtune: trial 1 4-2: acc 0.5123, latency_ms 1.5 [2 of 3]",
        "headtune: trial 2 4-2: raised an error: no [2 of 3]",
    ]
