"""What a task sets for the whole process is put back."""

import io
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headtune.trial.process_state import kept_process_state


def state() -> dict[str, object]:
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "grad": torch.is_grad_enabled(),
        "determinism": torch.get_deterministic_debug_mode(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "anomalies": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "filters": list(warnings.filters),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "signals": (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)),
        "folder": Path.cwd(),
    }


def replace_streams() -> None:
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()


def set_cudnn() -> None:
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True


CHANGES: dict[str, Callable[[], object]] = {
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "device": lambda: torch.set_default_device("meta"),
    "grad": lambda: torch.set_grad_enabled(False),
    "determinism": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "cudnn": set_cudnn,
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "filters": lambda: warnings.simplefilter("error"),
    "streams": replace_streams,
    "signals": lambda: [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)],
    "folder": lambda: os.chdir("/"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_is_put_back(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    before = state()
    with kept_process_state():
        CHANGES[name]()
        assert state()[name] != before[name]
    assert state() == before


def test_every_state_has_a_change() -> None:
    assert CHANGES.keys() == state().keys()


def test_it_is_put_back_after_an_error() -> None:
    def break_off() -> None:
        with kept_process_state():
            torch.set_default_dtype(torch.float64)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert torch.get_default_dtype() is torch.float32


def test_a_default_device_of_the_persons_stays() -> None:
    torch.set_default_device("meta")
    try:
        with kept_process_state():
            torch.set_default_device("cpu")
        device = torch.empty(1).device
    finally:
        torch.set_default_device(None)
    assert device.type == "meta"


def test_torch_is_not_slowed_by_what_was_put_back() -> None:
    with kept_process_state():
        torch.set_default_device("meta")
    assert torch._C._len_torch_function_stack() == 0


def test_standard_streams_that_were_closed_are_opened_anew(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from headtune.trial.process_state import kept_process_state\n"
        "with kept_process_state():\n"
        "    sys.stdin.close(), sys.stdout.close(), sys.stderr.close()\n"
        "print(sys.stdin.readline().strip(), 'out \\ud800')\n"
        "print('err', file=sys.stderr)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], input="in\n", capture_output=True, text=True, check=False, timeout=100
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "in out \\ud800\n", "err\n")


def test_a_stream_that_was_none_stays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with kept_process_state():
        monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert sys.stdin is None


def test_a_folder_that_is_gone_is_not_gone_back_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    with kept_process_state():
        os.chdir(tmp_path)
        gone.rmdir()
    assert Path.cwd() == tmp_path
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    with kept_process_state():
        os.chdir(tmp_path)
    assert Path.cwd() == tmp_path


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    ended: list[bool] = []

    def work() -> None:
        with kept_process_state():
            torch.set_grad_enabled(False)
        ended.append(torch.is_grad_enabled())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]
    assert signal.getsignal(signal.SIGINT) is before
