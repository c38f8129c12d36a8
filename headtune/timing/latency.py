"""The latency of a model: the real one, alone, beside a reference."""

import platform
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from statistics import median

import numpy as np
import torch
from torch import nn

from headtune.surgery.inputs import Inputs
from headtune.timing.audit import CONTENDED, DRAWS, random_state
from headtune.timing.card import card_state
from headtune.timing.clock import clock_of
from headtune.timing.conditions import conditions
from headtune.timing.device import device_name, resolve, versions
from headtune.timing.forward import check_arguments, prepared
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.interval import median_interval
from headtune.timing.lane import Lane
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.sampling import Samples, take_samples
from headtune.timing.train_step import Loss
from headtune.timing.workload import ready


def measure(
    model: nn.Module,
    inputs: Inputs | InputsFactory,
    protocol: LatencyProtocol,
    *,
    reference: nn.Module | None = None,
    lane: Lane | None = None,
    loss: Loss | None = None,
) -> LatencyProfile:
    """Time a model as the protocol says, interleaved with a reference model.

    A forward pass and a decoded token in eval and inference mode; a training step in training mode, on a copy of the
    model, so that the model itself learns nothing. The protocol's threads and autocast; all of it is put back
    afterwards, and so are the random generators of torch, NumPy and Python. The first pass of each model is not timed,
    so compiling is not; under ``compile`` what else was compiled in this process is forgotten, and compiled again. What
    speaks against the numbers stands in the profile's ``doubts``.

    Args:
        model: what is timed; a copy of it where it must be moved or cast.
        inputs: the arguments of forward, for both models: a tuple, a dict, or a callable of ``(batch_size, seq_len)``.
            Ready ones are read as batch-first, and their sizes go into the profile.
        protocol: how; an open device or number of threads becomes what is there now.
        reference: what it is compared with; the ratio is the number that holds on a busy machine.
        lane: keeps the trials of this node still meanwhile.
        loss: ``(model) -> scalar tensor``, what ``mode: train_step`` trains on; the mean square of the outputs where
            there is none.

    Returns:
        The profile, with a protocol in which nothing is open.

    Raises:
        InputError: an argument of the wrong kind, or inputs that are no arguments.
        MeasurementError: a device that is not there; a model that raises, that goes into training mode by itself, or
            that has no cache, cannot be trained, compiled or captured where the protocol asks for it.
        torch.OutOfMemoryError: it does not fit on the GPU; on the CPU a ``RuntimeError`` says so.
    """
    check_arguments("measure", model, protocol, reference, lane)
    protocol = resolve(protocol, torch.get_num_threads())
    clock = clock_of(protocol.device)
    with conditions(protocol), ExitStack() as models:
        arguments, protocol = ready_inputs(inputs, protocol)
        ours = models.enter_context(prepared(model, arguments, protocol))
        pair = [ours]
        if reference is not None:
            pair.append(models.enter_context(prepared(reference, arguments, protocol, "the reference")))
        state = random_state()
        workloads = [ready(forward, protocol, clock, loss) for forward in pair]
        draws = protocol.mode != "train_step" and random_state() != state
        with nullcontext(False) if lane is None else lane.exclusive() as contended:
            samples = take_samples(workloads[0], workloads[1] if reference is not None else None, clock, protocol)
    return _profile(replace(samples, doubts=(*samples.doubts, *([DRAWS] if draws else []))), protocol, contended)


def _profile(samples: Samples, protocol: LatencyProtocol, contended: bool) -> LatencyProfile:
    ratios = samples.ratios if samples.reference_ms else [1.0]
    return LatencyProfile(
        protocol=protocol,
        median_ms=median(samples.model_ms),
        p90_ms=float(np.percentile(samples.model_ms, 90)),
        interval_ms=median_interval(samples.model_ms),
        ratio=median(ratios),
        ratio_interval=median_interval(ratios),
        reference_median_ms=median(samples.reference_ms) if samples.reference_ms else None,
        samples=len(samples.model_ms),
        calls_per_sample=samples.calls,
        settled=samples.settled,
        contended=contended,
        doubts=(*samples.doubts, *([CONTENDED] if contended else [])),
        card=card_state(protocol.device),
        device_name=device_name(protocol.device),
        versions=versions(),
        host=platform.node(),
    )
