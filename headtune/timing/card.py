"""What a GPU says of itself and of who else uses it, for the record beside a latency."""

import os
from collections.abc import Mapping
from typing import Any

import torch


def card_state(device: str) -> Mapping[str, str | float]:
    """Clocks, temperature and other processes of a CUDA device now; nothing on other devices.

    NVIDIA's management library tells, through the package of the extra ``headtune[gpu]``; where it does not, the entry
    ``unknown`` says why.

    Returns:
        ``sm_clock_mhz`` and ``most_sm_clock_mhz``, ``temperature_c``, ``other_processes`` and ``other_memory_mb`` (of
        10**6 bytes).
    """
    if not device.startswith("cuda"):
        return {}
    try:
        import pynvml
    except ImportError:
        return {"unknown": "clocks and other processes of the card: pip install 'headtune[gpu]' to note them"}
    try:
        pynvml.nvmlInit()
        try:
            return _state(pynvml, f"GPU-{torch.cuda.get_device_properties(device).uuid}")
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return {"unknown": f"clocks and other processes of the card: {error}"}


def _state(nvml: Any, uuid: str) -> dict[str, str | float]:  # noqa: ANN401
    card = nvml.nvmlDeviceGetHandleByUUID(uuid)
    running = nvml.nvmlDeviceGetComputeRunningProcesses(card)
    others = [process for process in running if process.pid != os.getpid()]
    return {
        "sm_clock_mhz": nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
        "most_sm_clock_mhz": nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM),
        "temperature_c": nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
        "other_processes": len(others),
        "other_memory_mb": sum(process.usedGpuMemory or 0 for process in others) / 1e6,
    }
