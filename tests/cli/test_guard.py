import logging
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
import typer

from headtune.cli.guard import guard
from headtune.errors import FailedError, HeadtuneError, Infeasible, InputError, SpecError, StudyBusyError

Capture = pytest.CaptureFixture[str]


def end(error: BaseException, verbose: bool = False, output: Path | None = None) -> int:
    """The exit code of a verb that ends with *error*, after it has begun a log in *output*."""

    def verb() -> None:
        with guard(verbose, "stopped; run again") as session:
            if output is not None:
                session.log_to(output)
            raise error

    with pytest.raises(typer.Exit) as caught:
        verb()
    return caught.value.exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), 2),
        (SpecError("x"), 2),
        (StudyBusyError("x"), 2),
        (Infeasible("x"), 3),
        (FailedError("x"), 1),
        (HeadtuneError("x"), 1),
        (KeyboardInterrupt(), 130),
        (SystemExit(0), 1),
        (SystemExit(77), 1),
        (GeneratorExit(), 1),
        (BaseException("odd"), 1),
        (ValueError("x"), 1),
        (MemoryError(), 2),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2),
    ],
)
def test_every_ending_has_its_exit_code_and_no_traceback(error: BaseException, code: int, capsys: Capture) -> None:
    assert end(error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_a_verb_that_ends_well_ends_well(capsys: Capture) -> None:
    with guard(verbose=False):
        print("a result")
    assert capsys.readouterr() == ("a result\n", "")


def test_every_problem_has_a_line(capsys: Capture) -> None:
    end(SpecError("a.yaml:1: first", "a.yaml:2: second [/x]"))
    assert capsys.readouterr().err == "error: a.yaml:1: first\nerror: a.yaml:2: second [/x]\n"


def test_an_interruption_says_what_to_do(capsys: Capture) -> None:
    end(KeyboardInterrupt())
    assert capsys.readouterr().err == "stopped; run again\n"


def test_what_does_not_fit_is_no_failure_of_headtune(capsys: Capture) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**16)
    end(caught.value)
    assert capsys.readouterr().err == (
        "error: not enough memory (RuntimeError: can't allocate memory: 40,000,000.0 GB asked at once); "
        "make latency.batch_size, latency.seq_len or the model smaller\n"
    )


def test_verbose_shows_the_traceback(capsys: Capture) -> None:
    end(SpecError("a problem"), verbose=True)
    err = capsys.readouterr().err
    assert err.startswith("error: a problem\nTraceback (most recent call last)")
    assert "raise error" in err


class Nameless(type):
    def __getattribute__(cls, name: str) -> object:
        if name in ("__name__", "__qualname__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Unnamed(Exception, metaclass=Nameless):
    """Its class does not bear to be named, as a traceback does."""


def test_verbose_shows_what_can_be_had_of_a_hostile_error(tmp_path: Path, capsys: Capture) -> None:
    assert end(Unnamed("boom"), verbose=True, output=tmp_path) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: headtune failed in a way it should not: Unnamed: boom; the traceback is in ")
    assert err.endswith("    raise error\nUnnamed: boom\n")
    assert (tmp_path / "headtune.log").read_text().endswith("    raise error\nUnnamed: boom\n")


def test_the_unexpected_is_one_sentence_and_its_traceback_is_in_the_studys_log(tmp_path: Path, capsys: Capture) -> None:
    assert end(ZeroDivisionError("no such thing"), output=tmp_path / "made") == 1
    log = tmp_path / "made" / "headtune.log"
    assert capsys.readouterr().err == (
        f"error: headtune failed in a way it should not: ZeroDivisionError: no such thing; the traceback is in {log}\n"
    )
    assert "ZeroDivisionError: no such thing" in log.read_text()
    assert "Traceback" in log.read_text()


def test_the_unexpected_before_there_is_an_output_is_logged_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert end(AssertionError()) == 1
    assert capsys.readouterr().err == (
        "error: headtune failed in a way it should not: AssertionError; "
        f"the traceback is in {tmp_path / 'headtune.log'}\n"
    )
    assert "AssertionError" in (tmp_path / "headtune.log").read_text()


def test_the_unexpected_where_nothing_can_be_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    assert end(ValueError("odd")) == 1
    assert capsys.readouterr().err == (
        "error: headtune failed in a way it should not: ValueError: odd; run again with -v for the traceback\n"
    )


def test_known_errors_are_kept_in_the_log_with_their_tracebacks(tmp_path: Path) -> None:
    assert end(Infeasible("nothing fits"), output=tmp_path) == 3
    assert "Traceback" in (tmp_path / "headtune.log").read_text()


def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "out"
    assert end(AssertionError("never reached"), output=folder) == 2
    assert capsys.readouterr().err == (
        f"error: {folder}: cannot be written (Not a directory); name another folder with `output`\n"
    )


def test_loggers_and_warnings_are_as_before_afterwards(tmp_path: Path) -> None:
    before = (logging.getLogger("headtune").handlers[:], warnings.showwarning)
    with guard(verbose=False) as session:
        session.log_to(tmp_path)
    assert (logging.getLogger("headtune").handlers, warnings.showwarning) == before


def test_headtunes_own_warnings_are_notes_and_others_go_to_the_log(tmp_path: Path, capsys: Capture) -> None:
    import headtune

    inside = str(Path(headtune.__file__).parent / "study" / "checking.py")
    with guard(verbose=False) as session:
        warnings.simplefilter("always")
        session.log_to(tmp_path)
        warnings.warn_explicit("mind this block", UserWarning, inside, 3)
        warnings.warn_explicit("old habit", FutureWarning, "/elsewhere/torch/nn.py", 7)
    assert capsys.readouterr().err == "note: mind this block\n"
    assert "FutureWarning: old habit (/elsewhere/torch/nn.py, line 7)" in (tmp_path / "headtune.log").read_text()


def test_the_unexpected_without_any_temporary_folder(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert end(ValueError("odd")) == 1
    assert capsys.readouterr().err.endswith("ValueError: odd; run again with -v for the traceback\n")
