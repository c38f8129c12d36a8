import io
import json
import sys

import pytest
from rich.text import Text

from headtune.cli.terminal import say, show, show_json, stderr, table

Capture = pytest.CaptureFixture[str]


def test_results_go_to_stdout_and_the_rest_to_stderr(capsys: Capture) -> None:
    show("a result")
    say("a note")
    say("went wrong", mark="error")
    captured = capsys.readouterr()
    assert captured.out == "a result\n"
    assert captured.err == "a note\nerror: went wrong\n"


def test_text_is_written_as_it_is(capsys: Capture) -> None:
    strange = "heads[/kv_heads] [bold] :smile: 3.5 'x' " + "long " * 60
    say(strange)
    show(strange)
    captured = capsys.readouterr()
    assert captured.out == captured.err == f"{strange}\n"


def test_a_table_in_a_pipe_is_as_wide_as_it_needs(capsys: Capture) -> None:
    rows = table("name", "much text", "number", numbers=1)
    rows.add_row("a[/b]", "x" * 300, "1")
    rows.add_row("b", "", Text("22", style="bold"))
    show(rows)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].split() == ["name", "much", "text", "number"]
    assert lines[2] == f"a[/b]   {'x' * 300}        1"
    assert lines[3] == f"b       {' ' * 300}       22"


def test_json_is_all_there_is(capsys: Capture) -> None:
    show_json({"ü": [1, 2.5, None, "≤"]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"ü": [1, 2.5, None, "≤"]}
    assert "≤" in out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_json_is_json_where_the_stream_lacks_characters(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"é": "≤ 🙂 \udcff"}
    stream = io.TextIOWrapper(io.BytesIO(), encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    show_json(document)
    stream.seek(0)
    assert json.loads(stream.read()) == document


def test_json_has_no_word_for_what_is_not_finite(capsys: Capture) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        show_json({"a": float("nan")})
    assert capsys.readouterr().out == ""


def test_stderr_is_looked_up_when_it_is_used(capsys: Capture) -> None:
    stderr().print("now")
    assert capsys.readouterr().err == "now\n"
