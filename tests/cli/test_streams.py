import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headtune.cli.streams import BROKEN_PIPE, Sink, lost_results, open_streams

HEADTUNE = f"'{sys.executable}' -m headtune"
SUGGEST = f"{HEADTUNE} suggest --d-model 384 --layers 6"
LOST = "error: the results could not be written to standard output ({}): redirect it elsewhere\n"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """How a line of bash ends; stdout and stderr are pipes unless the line says otherwise."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code", "err"),
    [
        (f"{SUGGEST} | true", BROKEN_PIPE, ""),
        (f"{HEADTUNE} --help | true", BROKEN_PIPE, ""),
        (f"{SUGGEST} >/dev/full", 2, LOST.format("No space left on device")),
        (f"{SUGGEST} --json >/dev/full", 2, LOST.format("No space left on device")),
        (f"{HEADTUNE} --help >/dev/full", 2, LOST.format("No space left on device")),
        (f"{SUGGEST} >&-", 2, LOST.format("it is closed")),
        (f"{HEADTUNE} --version >&-", 2, LOST.format("it is closed")),
        (f"{HEADTUNE} suggest --d-model 0 >&-", 2, None),
        (f"{SUGGEST} >/dev/null 2>&-", 0, ""),
        (f"{SUGGEST} >/dev/null <&-", 0, ""),
        (f"{HEADTUNE} check nothing.yaml 2>/dev/full", 2, ""),
        (f"{HEADTUNE} check nothing.yaml 2>&1 | true", 2, ""),
    ],
)
def test_a_stream_that_takes_nothing(command: str, code: int, err: str | None) -> None:
    done = shell(command)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (code, "", False), done.stderr
    assert err is None or done.stderr == err


@pytest.mark.slow
def test_a_search_whose_streams_are_closed_is_done_all_the_same(study: Path) -> None:
    done = shell(f"{HEADTUNE} search '{study}' >&- 2>&- <&-")
    assert done.returncode == 2
    assert (study.parent / "out" / "report.html").is_file()
    front = shell(f"{HEADTUNE} front '{study}' --json")
    assert (front.returncode, front.stderr) == (0, "")
    assert json.loads(front.stdout)


@pytest.mark.slow
def test_a_search_whose_readers_leave_is_done_all_the_same(study: Path) -> None:
    assert shell(f"{HEADTUNE} search '{study}' 2>&1 | head -1").stdout.startswith("interrupted or killed")
    assert (study.parent / "out" / "report.html").is_file()
    text = shell(f"{HEADTUNE} search '{study}' | head -1")
    assert (text.returncode, "Traceback" in text.stderr) == (BROKEN_PIPE, False)
    plain = shell(f"{HEADTUNE} front '{study}'", PYTHONIOENCODING="ascii")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "quality \\u2191" in plain.stdout, "a character that the stream lacks is replaced"


def test_a_file_name_that_is_no_text_is_written_with_escapes(tmp_path: Path) -> None:
    done = shell(f"{HEADTUNE} init {tmp_path}/$'a\\xff'")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"wrote {tmp_path}/a\\udcff/study.yaml"


def test_a_sink_writes_and_then_keeps_the_first_loss() -> None:
    reading, writing = os.pipe()
    sink = Sink(writing)
    assert sink.write(b"abc") == 3
    assert os.read(reading, 9) == b"abc"
    os.close(reading)
    assert (sink.lost, sink.write(b"defg"), sink.write(b"h")) == (None, 4, 1)
    assert isinstance(sink.lost, BrokenPipeError)
    os.close(writing)


def test_a_sink_waits_for_a_reader_of_a_stream_that_does_not_block() -> None:
    child = "import os, time\ntime.sleep(0.2)\nn = 0\nwhile b := os.read(0, 65536):\n    n += len(b)\nprint(n)\n"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        os.set_blocking(reader.stdin.fileno(), False)
        stream = io.BufferedWriter(Sink(reader.stdin.fileno()))
        stream.write(b"x" * 1_000_000)
        stream.flush()
        assert reader.communicate()[0] == b"1000000\n"


def test_streams_that_someone_replaced_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before: tuple[Any, Any] = (sys.stdout, sys.stderr)
    assert open_streams() is None
    assert (sys.stdout, sys.stderr) == before


def test_nothing_lost_is_no_problem() -> None:
    reading, writing = os.pipe()
    assert lost_results(Sink(writing)) == (0, "")
    os.close(reading)
    os.close(writing)
