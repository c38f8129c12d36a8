"""The device that a protocol names: which one it is, what it calls itself, what software runs it."""

import os
import platform
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from headtune.errors import InputError, MeasurementError
from headtune.timing.protocol import LatencyProtocol

ACCELERATORS = {"cuda": "CUDA", "mps": "MPS", "xpu": "XPU"}


def resolve(protocol: LatencyProtocol, cpus: int) -> LatencyProtocol:
    """The protocol with a concrete device and a concrete number of threads.

    Args:
        protocol: how to measure; ``auto``, ``cuda`` and ``threads=None`` are left open in it.
        cpus: CPUs of the trial, which an open number of threads becomes.

    Raises:
        InputError: no CPUs.
        MeasurementError: a device that is not there, or not one that can be timed.
    """
    if cpus < 1:
        raise InputError(f"cpus is {cpus}; a measurement needs 1 or more")
    return replace(protocol, device=concrete_device(protocol.device), threads=protocol.threads or cpus)


def concrete_device(name: str) -> str:
    """``cpu``, ``mps``, ``cuda:<index>`` or ``xpu:<index>`` for a protocol's device name.

    Raises:
        MeasurementError: a device that is not there, or not one that can be timed.
    """
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return concrete_device(found.type) if found is not None and found.type in ACCELERATORS else "cpu"
    kind, _, index = name.partition(":")
    if name == "cpu":
        return name
    if kind not in ACCELERATORS or not (name == kind or (index.isdecimal() and kind != "mps")):
        raise MeasurementError(
            f"device {name!r} cannot be timed; use auto, cpu, cuda, cuda:<index>, mps, xpu or xpu:<index>"
        )
    present = _count(kind)
    if not present:
        raise MeasurementError(
            f"{name} asked, no {ACCELERATORS[kind]} device: {_why_none(kind)}; set device to auto or cpu"
        )
    if kind == "mps":
        return kind
    backend: Any = getattr(torch, kind)
    wanted = int(index) if index else backend.current_device()
    if wanted >= present:
        raise MeasurementError(
            f"{name} asked, but the last {ACCELERATORS[kind]} device is {kind}:{present - 1}; name one up to it"
        )
    return f"{kind}:{wanted}"


def synchronize(device: str) -> None:
    """Wait until a concrete device has done what it was given; the CPU has it done already."""
    if device != "cpu":
        torch.accelerator.synchronize(torch.device(device))


def _count(kind: str) -> int:
    """How many accelerators of the kind torch sees."""
    if not torch.accelerator.is_available():
        return 0
    found = torch.accelerator.current_accelerator()
    return torch.accelerator.device_count() if found is not None and found.type == kind else 0


def _why_none(kind: str) -> str:
    return _why_no_cuda() if kind == "cuda" else f"torch {torch.__version__} sees none"


def _why_no_cuda() -> str:
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
    return f"torch {torch.__version__} sees no GPU{hidden}"


def device_name(device: str) -> str:
    """What a concrete device calls itself."""
    kind = device.partition(":")[0]
    if kind == "mps":
        return f"Apple {_cpu_name()}"
    backend: Any = getattr(torch, kind)
    return _cpu_name() if kind == "cpu" else str(backend.get_device_name(device))


def versions() -> dict[str, str]:
    """Of python, torch, the platform and the CPU; of CUDA too where torch has it."""
    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(),
        "cpu": _cpu_name(),
    }
    return found if torch.version.cuda is None else {**found, "cuda": torch.version.cuda}


@cache
def _cpu_name() -> str:
    # platform.processor() is empty or a bare "x86_64" on most Linux systems.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == "model name"]
    return models[0] if models else platform.processor() or platform.machine()
