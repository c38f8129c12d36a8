import inspect
from collections.abc import Callable
from importlib import import_module

import pytest

Run = Callable[..., tuple[int, str, str]]

VERBS = ("init", "suggest", "check", "space", "measure", "search", "front", "export", "report", "dashboard")


def test_help_lists_every_verb(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert all(f" {verb} " in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_an_example_that_begins_with_its_call(run: Run, verb: str) -> None:
    code, out, err = run(verb, "--help")
    assert (code, err) == (0, "")
    assert f"Example: headtune {verb}" in out
    assert run(verb, "-h")[1] == out


@pytest.mark.parametrize("verb", VERBS)
def test_one_file_per_verb_with_its_example_and_few_options(verb: str) -> None:
    function = vars(import_module(f"headtune.cli.{verb}"))[verb]
    assert len(inspect.signature(function).parameters) <= 6


def test_no_verb_shows_the_help(run: Run) -> None:
    code, out, err = run()
    assert code == 2
    assert "Usage: headtune" in out + err


def test_a_wrong_verb_is_refused_with_a_suggestion(run: Run) -> None:
    code, out, err = run("serach", "study.yaml")
    assert (code, out) == (2, "")
    assert "No such command 'serach'" in err
    assert "search" in err.replace("serach", "")


def test_a_wrong_option_is_refused(run: Run) -> None:
    code, out, err = run("search", "study.yaml", "--trials", 4)
    assert (code, out) == (2, "")
    assert "--trials" in err


def test_the_version(run: Run) -> None:
    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert out.startswith("headtune")
