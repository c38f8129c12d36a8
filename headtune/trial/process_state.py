"""What torch and Python hold once for the whole process: a task that changes it must not change the next trial."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, TextIO

import torch

_STREAMS: dict[str, tuple[int, Literal["r", "w"]]] = {"stdin": (0, "r"), "stdout": (1, "w"), "stderr": (2, "w")}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def kept_process_state() -> Iterator[None]:
    """Put back, on leaving, what a person's code may have set for the whole process.

    Torch's default dtype and device, gradients, determinism and the search for anomalies; the current folder, the
    standard streams, the filters of warnings, and what Ctrl-C and SIGTERM do. A standard stream that was closed is
    opened anew. The environment stays as the task left it, since libraries read it only once.
    """
    with ExitStack() as stack:
        for put_back in (*_torch(), *_python()):
            stack.callback(put_back)
        yield


def _torch() -> list[Callable[[], object]]:
    dtype, device, grad = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    determinism = torch.get_deterministic_debug_mode()
    cudnn = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic
    anomalies = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()

    def put_back_cudnn() -> None:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = cudnn

    return [
        lambda: torch.set_default_dtype(dtype),
        lambda: _put_back_device(device),
        lambda: torch.set_grad_enabled(grad),
        lambda: torch.set_deterministic_debug_mode(determinism),
        lambda: torch.autograd.set_detect_anomaly(*anomalies),
        put_back_cudnn,
    ]


def _put_back_device(device: torch.device) -> None:
    if torch.get_default_device() != device:
        # A default that is set, even to the CPU, slows every call of torch.
        torch.set_default_device(None if device.type == "cpu" else device)


def _python() -> list[Callable[[], object]]:
    filters = warnings.filters[:]
    streams: dict[str, TextIO | None] = {name: vars(sys)[name] for name in _STREAMS}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    folder: Path | None = None
    with suppress(FileNotFoundError):  # deleted under us: there is nothing to go back to
        folder = Path.cwd()

    def put_back_filters() -> None:
        warnings.filters[:] = filters  # type: ignore[index]

    def put_back_handlers() -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None:  # one that was not set from Python
                    signal.signal(number, handler)

    def put_back_streams() -> None:
        for name, stream in streams.items():
            setattr(sys, name, _opened(name, stream))

    def put_back_folder() -> None:
        if folder is not None:
            with suppress(OSError):  # the task deleted it
                os.chdir(folder)

    return [put_back_filters, put_back_streams, put_back_handlers, put_back_folder]


def _opened(name: str, stream: TextIO | None) -> TextIO | None:
    """The stream, or where it was closed another one to the same place."""
    if stream is None or not stream.closed:
        return stream
    number, mode = _STREAMS[name]
    encoding = stream.encoding if isinstance(stream, TextIOWrapper) else "utf-8"
    return open(number, mode, encoding=encoding, errors="backslashreplace", closefd=False)
