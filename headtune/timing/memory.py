"""How much memory one pass takes."""

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _profiler_enabled
from torch.autograd.profiler import profile

from headtune.errors import MeasurementError
from headtune.surgery.inputs import Inputs
from headtune.timing.clock import clock_of
from headtune.timing.conditions import conditions
from headtune.timing.device import resolve, synchronize
from headtune.timing.forward import check_arguments, prepared
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.train_step import Loss
from headtune.timing.workload import Workload, ready

MB = 10**6


def peak_memory_mb(
    model: nn.Module, inputs: Inputs | InputsFactory, protocol: LatencyProtocol, *, loss: Loss | None = None
) -> float:
    """The most memory that one pass of the protocol's mode holds at once, in MB of 10**6 bytes.

    Parameters, buffers and inputs, each storage once, with the optimizer's state or the cache where there is one; and
    the most that torch's allocator held for the pass beside them: outputs, intermediate tensors, gradients, and scratch
    inside fused kernels. Other tensors of the process do not count, nor what a library allocates by itself. The same
    pass gives the same number. On the CPU an allocator counts the bytes that were asked for, on a GPU whole blocks.

    Args:
        model: as for :func:`~headtune.timing.latency.measure`.
        inputs: likewise.
        protocol: likewise; a pass is never taken from a CUDA graph, whose memory is set aside beforehand.
        loss: likewise.

    Raises:
        InputError: an argument of the wrong kind, or inputs that are no arguments.
        MeasurementError: a device that is not there or that does not tell its memory, a model that raises, or on the
            CPU a torch profiler that runs.
        torch.OutOfMemoryError: it does not fit on the GPU; on the CPU a ``RuntimeError`` says so.
    """
    check_arguments("peak_memory_mb", model, protocol)
    protocol = replace(resolve(protocol, torch.get_num_threads()), cuda_graphs=False)
    if protocol.device == "mps":
        raise MeasurementError("torch keeps no record of the peak memory on mps; leave peak_memory_mb out there")
    with conditions(protocol):
        arguments, protocol = ready_inputs(inputs, protocol)
        with prepared(model, arguments, protocol) as forward:
            workload = ready(forward, protocol, clock_of(protocol.device), loss)
            peak = _cpu_peak if protocol.device == "cpu" else _accelerator_peak
            return (_resident(workload.tensors()) + peak(workload, protocol.device)) / MB


def _resident(tensors: Iterable[Tensor]) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _accelerator_peak(workload: Workload, device: str) -> int:
    backend: Any = getattr(torch, torch.device(device).type)
    with workload.renewed() as call:
        synchronize(device)
        before: int = backend.memory_allocated(device)
        backend.reset_peak_memory_stats(device)
        call()
        synchronize(device)
        most: int = backend.max_memory_allocated(device)
    return most - before


def _cpu_peak(workload: Workload, device: str) -> int:
    if _profiler_enabled():
        raise MeasurementError("peak memory on the CPU needs torch's profiler, and one is running; end it first")
    # Kineto, though unused, writes a line at each start and stop unless it is told not to; it reads this once.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    # The allocator's own events: a dispatch mode would not see into fused kernels.
    with workload.renewed() as call, profile(use_kineto=False, profile_memory=True) as recorded:
        call()
    events = recorded.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    peak: int = max(accumulate((nbytes for _, nbytes in sorted(changes, key=lambda change: change[0])), initial=0))
    return peak
