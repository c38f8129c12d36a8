from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("verb", ["front", "report", "dashboard"])
def test_a_study_that_never_ran_is_refused_and_nothing_is_made(run: Run, study: Path, verb: str) -> None:
    code, out, err = run(verb, study)
    assert (code, out, "Traceback" in err) == (2, "", False), err
    assert "error: " in err
    assert not (study.parent / "out").exists()
