"""What is timed: a forward pass, a training step or a decoded token, ready to be called again and again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from headtune.errors import MeasurementError, in_words, out_of_memory
from headtune.timing.clock import Clock
from headtune.timing.decode import decoded_token
from headtune.timing.forward import Forward
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.step import Step
from headtune.timing.train_step import Loss, training_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Something to time.

    Attributes:
        forward: the model and its arguments, of which messages speak.
        step: what one call does.
        learns: whether gradients are followed.
    """

    forward: Forward
    step: Step
    learns: bool = False

    @contextmanager
    def renewed(self) -> Iterator[Callable[[], object]]:
        """The call, under its gradients and with what the one before used up put back.

        Raises:
            MeasurementError: the model raised.
        """
        with self.forward.blamed("training step" if self.learns else "forward pass"), self._gradients():
            self.forward.given.renew()
            self.step.renew()
            yield self.step.call

    def time_ms(self, clock: Clock, calls: int) -> float:
        """Milliseconds of one call, averaged over *calls* in a row.

        Raises:
            MeasurementError: the model raised.
        """
        with self.renewed() as call:
            return clock(call, calls) / calls

    def tensors(self) -> Iterator[Tensor]:
        """What stays in memory between two calls: parameters, buffers, inputs, the optimizer's state or the cache."""
        yield from chain(self.forward.tensors(), self.step.held())

    def _gradients(self) -> AbstractContextManager[object]:
        return torch.enable_grad() if self.learns else torch.inference_mode()


def ready(forward: Forward, protocol: LatencyProtocol, clock: Clock, loss: Loss | None = None) -> Workload:
    """The workload that *protocol* asks for, called once so that it has compiled and cached what it wants to.

    Raises:
        MeasurementError: the model raised, goes into training mode by itself, has no cache, cannot be compiled or
            captured, or cannot be trained.
    """
    learns = protocol.mode == "train_step"
    forward.first_pass(protocol)
    if not learns:
        _check_evaluating(forward)
    timed = _compiled(forward) if protocol.compile else forward
    with torch.inference_mode(not learns), forward.blamed():
        workload = Workload(forward=forward, step=_step(timed, protocol, loss), learns=learns)
    try:
        workload.time_ms(clock, 1)
    except MeasurementError as error:
        if not protocol.compile:
            raise
        raise MeasurementError(
            f"{forward.name} runs, but not under torch.compile: {error.problems[0]}; set compile to false"
        ) from error
    return _captured(workload, protocol) if protocol.cuda_graphs else workload


def _step(forward: Forward, protocol: LatencyProtocol, loss: Loss | None) -> Step:
    if protocol.mode == "train_step":
        return training_step(forward, protocol, loss)
    return decoded_token(forward, protocol) if protocol.mode == "decode" else Step(call=forward.under(protocol))


def _check_evaluating(forward: Forward) -> None:
    training = [name or "the model itself" for name, module in forward.model.named_modules() if module.training]
    if training:
        shown = f"{', '.join(training[:3])}{' and more' if len(training) > 3 else ''}"
        raise MeasurementError(
            f"{forward.name} goes into training mode in its forward pass ({shown}), so that dropout and gradients' "
            f"bookkeeping would be timed; call train() outside of forward, or measure mode: train_step"
        )


def _compiled(forward: Forward) -> Forward:
    torch.compiler.reset()  # what earlier models left would count against the limit of versions of one forward
    compiled: Any = torch.compile(forward.model)
    return replace(forward, model=compiled)


def _captured(workload: Workload, protocol: LatencyProtocol) -> Workload:
    device, call = torch.device(protocol.device), workload.step.call
    try:
        with torch.inference_mode(), torch.cuda.device(device):
            _call_aside(call, device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        raise MeasurementError(
            f"{workload.forward.name} cannot be captured as a CUDA graph: {in_words(error)}; set cuda_graphs to false"
        ) from error
    return replace(workload, step=replace(workload.step, call=graph.replay))


def _call_aside(call: Callable[[], object], device: torch.device) -> None:
    """A few calls on a stream of their own, as capturing wants before it."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream(device).wait_stream(stream)
