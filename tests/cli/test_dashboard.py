import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.config import load_study
from headtune.study import search

Run = Callable[..., tuple[int, str, str]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_it_serves_the_study_until_ctrl_c(study: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    search(load_study(study))
    port = free_port()
    command = [sys.executable, "-m", "headtune", "dashboard", str(study), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        page = _fetch(f"http://127.0.0.1:{port}/api/studies", process)
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert '"tiny"' in page
    assert (process.returncode, out) == (0, "")
    assert err == f"http://127.0.0.1:{port}/ shows the study until Ctrl-C\nthe dashboard was closed\n"


def _fetch(url: str, process: "subprocess.Popen[str]") -> str:
    deadline = time.monotonic() + 90
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_a_port_that_is_taken(run: Run, study: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    search(load_study(study))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = run("dashboard", study, "--port", port)
    assert (code, out, "Traceback" in err) == (2, "", False), err
    assert f"cannot listen on 127.0.0.1:{port}" in err


@pytest.mark.parametrize("port", ["0", "70000", "http"])
def test_a_port_that_is_none(run: Run, study: Path, port: str) -> None:
    code, out, err = run("dashboard", study, "--port", port)
    assert (code, out, "Traceback" in err) == (2, "", False)
