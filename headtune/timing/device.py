"""The device that a protocol names: which one it is, what it calls itself, what software runs it."""

import os
import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from headtune.errors import InputError, MeasurementError
from headtune.timing.protocol import LatencyProtocol


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
    """``cpu`` or ``cuda:<index>`` for a protocol's device name.

    Raises:
        MeasurementError: a device that is not there, or not one that can be timed.
    """
    if name == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    kind, _, index = name.partition(":")
    if name == "cpu":
        return name
    if kind != "cuda" or not (index.isdecimal() or name == kind):
        raise MeasurementError(f"device {name!r} cannot be timed; use auto, cpu, cuda or cuda:<index>")
    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not present:
        raise MeasurementError(f"{name} asked, no CUDA device: {_why_no_cuda()}; set device to auto or cpu")
    wanted = int(index) if index else torch.cuda.current_device()
    if wanted >= present:
        raise MeasurementError(f"{name} asked, but the last CUDA device is cuda:{present - 1}; name one up to it")
    return f"cuda:{wanted}"


def _why_no_cuda() -> str:
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
    return f"torch {torch.__version__} sees no GPU{hidden}"


def device_name(device: str) -> str:
    """What a concrete device calls itself."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else _cpu_name()


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
