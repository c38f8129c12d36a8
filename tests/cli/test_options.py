from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

VERBS = ("init", "suggest", "check", "space", "measure", "search", "front", "report", "dashboard")


def test_options_are_the_same_everywhere(run: Run) -> None:
    shown = {verb: run(verb, "--help")[1] for verb in VERBS}
    assert all("--verbose" in text for text in shown.values())
    assert {verb for verb, text in shown.items() if "--set" in text} == set(VERBS) - {"init", "suggest"}
    assert {verb for verb, text in shown.items() if "--json" in text} == {
        "suggest",
        "check",
        "space",
        "measure",
        "search",
        "front",
    }


@pytest.mark.parametrize("verb", ["check", "space", "measure", "search", "front", "report", "dashboard"])
def test_every_verb_reads_the_study_first_and_names_every_problem_and_override(
    run: Run, tmp_path: Path, verb: str
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("version: 2\nname: x\ntask: a:b\nspace: {hold: width, weights: fresh}\nobjectives: []\n")
    assert run(verb, path, "--set", "search.trials=0", "--set", "seed=x") == (
        2,
        "",
        f"error: {path}:1: version: must be 1 (got 2)\n"
        f"error: {path}:5: objectives: must not be empty (got a list)\n"
        "error: --set seed=x: seed: must be a whole number (got 'x')\n"
        "error: --set search.trials=0: search.trials: must be at least 1 (got 0)\n",
    )
    assert "Traceback (most recent call last)" in run(verb, path, "-v")[2]


def test_a_study_that_is_not_there(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    assert run("check", path) == (
        2,
        "",
        f"error: {path}: there is no such file; `headtune init` writes a study to start from\n",
    )
