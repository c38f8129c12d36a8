from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.config import load_study
from headtune.study import search
from headtune.trial import Silent, TrialRecord

Run = Callable[..., tuple[int, str, str]]


class Impatient(Silent):
    """Interrupts the search as soon as three trials have ended."""

    def __init__(self) -> None:
        self.ended = 0

    def trial(self, record: TrialRecord) -> None:
        self.ended += record.outcome is not None
        if self.ended == 3:
            raise KeyboardInterrupt


def test_the_report_of_a_study_that_was_interrupted(run: Run, study: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        search(load_study(study), Impatient())
    code, out, err = run("report", study)
    assert (code, err) == (0, "")
    paths = [Path(line) for line in out.splitlines()]
    assert {path.name for path in paths} >= {"trials.csv", "front.csv", "front.json", "latency.json", "report.html"}
    assert all(path.is_file() and path.is_relative_to(study.parent / "out") for path in paths)
    rows = (study.parent / "out" / "trials.csv").read_text().splitlines()
    assert len(rows) >= 1 + 3
    code, out, _ = run("front", study)
    assert (code, "Nothing is recommended yet." in out) == (0, True)


def test_a_report_can_be_written_elsewhere(run: Run, study: Path, tmp_path: Path) -> None:
    search(load_study(study))
    storage = f"sqlite:///{study.parent / 'out' / 'study.db'}"
    code, out, err = run("report", study, "--set", "output=other", "--set", f"storage={storage}")
    assert code == 0, err
    assert (tmp_path / "other" / "report.html").is_file()
    assert all(line.startswith(str(study.parent / "other")) for line in out.splitlines())
