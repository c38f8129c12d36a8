"""How much memory one forward pass takes."""

import os
from collections.abc import Iterable
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch._C._autograd import _profiler_enabled
from torch.autograd.profiler import profile

from headtune.errors import MeasurementError
from headtune.surgery.inputs import Inputs
from headtune.timing.clock import clock_of
from headtune.timing.conditions import conditions
from headtune.timing.device import resolve
from headtune.timing.forward import Forward, check_arguments, prepared
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.protocol import LatencyProtocol

MB = 10**6


def peak_memory_mb(model: nn.Module, inputs: Inputs | InputsFactory, protocol: LatencyProtocol) -> float:
    """The most memory that one forward pass in eval and inference mode holds at once, in MB of 10**6 bytes.

    Parameters, buffers and inputs, each storage once, and the most that torch's allocator held for the pass beside
    them: outputs, intermediate tensors, and scratch inside fused kernels. Other tensors of the process do not count,
    nor what a library allocates by itself. The same pass gives the same number. On the CPU an allocator counts the
    bytes that were asked for, on CUDA blocks of 512.

    Args:
        model: as for :func:`~headtune.timing.latency.measure`.
        inputs: likewise.
        protocol: likewise.

    Raises:
        InputError: an argument of the wrong kind, or inputs that are no arguments.
        MeasurementError: a device that is not there, a model that raises, or on the CPU a torch profiler that runs.
        torch.OutOfMemoryError: it does not fit on the GPU; on the CPU a ``RuntimeError`` says so.
    """
    check_arguments("peak_memory_mb", model, protocol)
    protocol = resolve(protocol, torch.get_num_threads())
    with conditions(protocol):
        arguments, protocol = ready_inputs(inputs, protocol)
        with prepared(model, arguments, protocol) as forward:
            forward.first_pass(clock_of(protocol.device))
            peak = _cuda_peak if protocol.device.startswith("cuda") else _cpu_peak
            with torch.inference_mode():
                return (_resident(forward.tensors()) + peak(forward, protocol.device)) / MB


def _resident(tensors: Iterable[Tensor]) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _cuda_peak(forward: Forward, device: str) -> int:
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    forward()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _cpu_peak(forward: Forward, device: str) -> int:
    if _profiler_enabled():
        raise MeasurementError("peak memory on the CPU needs torch's profiler, and one is running; end it first")
    # Kineto, though unused, writes a line at each start and stop unless it is told not to; it reads this once.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    # The allocator's own events: a dispatch mode would not see into fused kernels.
    with profile(use_kineto=False, profile_memory=True) as recorded:
        forward()
    events = recorded.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    peak: int = max(accumulate((nbytes for _, nbytes in sorted(changes, key=lambda change: change[0])), initial=0))
    return peak
