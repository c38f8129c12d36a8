"""One training step: forward, backward and a step of AdamW."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from headtune.errors import MeasurementError
from headtune.timing.forward import Forward, autocasting
from headtune.timing.inputs import held_tensors
from headtune.timing.protocol import LatencyProtocol
from headtune.timing.step import Step

Loss = Callable[[nn.Module], Tensor]
"""What a model is trained on: the loss of a batch, which the function knows."""


def training_step(forward: Forward, protocol: LatencyProtocol, loss: Loss | None) -> Step:
    """A step of training a model that is on its device, in training mode.

    The learning rate is 0: the arithmetic is the same, and the weights stay where their time is known.

    Args:
        forward: the model and its arguments.
        protocol: says under which autocast loss and outputs are computed; the backward pass follows them.
        loss: of a batch; ``None`` for the mean square of what *forward* puts out.

    Raises:
        MeasurementError: nothing in the model can be trained.
    """
    trained = [parameter for parameter in forward.model.parameters() if parameter.requires_grad]
    if not trained:
        raise MeasurementError(f"{forward.name} has no parameter that requires gradients, so it takes no training step")
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in trained)
    optimizer = AdamW(trained, lr=0.0, fused=fused)

    def call() -> None:
        with autocasting(protocol):
            value = _mean_square(forward) if loss is None else loss(forward.model)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    def state() -> Iterator[Tensor]:
        for one in optimizer.state.values():
            yield from (value for value in one.values() if isinstance(value, Tensor))

    return Step(call=call, held=state)


def _mean_square(forward: Forward) -> Tensor:
    outputs = [tensor for tensor in held_tensors(forward()) if tensor.requires_grad]
    if not outputs:
        raise MeasurementError(
            f"what {forward.name} returns carries no gradient, so it takes no training step; "
            f"give the task a loss, or measure mode: forward"
        )
    return torch.stack([tensor.float().square().mean() for tensor in outputs]).sum()
