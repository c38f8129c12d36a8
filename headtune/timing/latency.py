"""The latency of a model: the real one, alone, beside a reference."""

from contextlib import ExitStack, nullcontext
from statistics import median

import numpy as np
import torch
from torch import nn

from headtune.surgery.inputs import Inputs
from headtune.timing.clock import clock_of
from headtune.timing.conditions import conditions
from headtune.timing.device import device_name, resolve, versions
from headtune.timing.forward import Forward, check_arguments, prepared
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.interval import median_interval
from headtune.timing.lane import Lane
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.sampling import Samples, take_samples


def measure(
    model: nn.Module,
    inputs: Inputs | InputsFactory,
    protocol: LatencyProtocol,
    *,
    reference: nn.Module | None = None,
    lane: Lane | None = None,
) -> LatencyProfile:
    """Time the forward pass of a model, interleaved with a reference model.

    Eval mode, inference mode, no autocast, the protocol's threads; all of it is put back afterwards, and so are the
    random generators of torch. The first pass of each model is not timed, so compiling is not.

    Args:
        model: what is timed; a copy of it where it must be moved or cast.
        inputs: the arguments of forward, for both models: a tuple, a dict, or a callable of ``(batch_size, seq_len)``.
            Ready ones are read as batch-first, and their sizes go into the profile.
        protocol: how; an open device or number of threads becomes what is there now.
        reference: what it is compared with; the ratio is the number that holds on a busy machine.
        lane: keeps the trials of this node still meanwhile.

    Returns:
        The profile, with a protocol in which nothing is open.

    Raises:
        InputError: an argument of the wrong kind, or inputs that are no arguments.
        MeasurementError: a device that is not there, or a model that raises.
        torch.OutOfMemoryError: it does not fit on the GPU; on the CPU a ``RuntimeError`` says so.
    """
    check_arguments("measure", model, protocol, reference)
    protocol = resolve(protocol, torch.get_num_threads())
    clock = clock_of(protocol.device)
    with conditions(protocol), ExitStack() as models:
        arguments, protocol = ready_inputs(inputs, protocol)
        ours = models.enter_context(prepared(model, arguments, protocol))
        theirs: Forward | None = None
        if reference is not None:
            theirs = models.enter_context(prepared(reference, arguments, protocol, "the reference"))
        for forward in filter(None, (ours, theirs)):
            forward.first_pass(clock)
        with nullcontext(False) if lane is None else lane.exclusive() as contended:
            samples = take_samples(ours, theirs, clock, protocol)
    return _profile(samples, protocol, contended)


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
        device_name=device_name(protocol.device),
        versions=versions(),
    )
