"""One training step: forward, backward and a step of AdamW."""

from collections.abc import Callable, Iterator, Sequence

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

    def wanted() -> Tensor:
        with autocasting(protocol):
            return _mean_square(forward) if loss is None else loss(forward.model)

    if loss is not None:
        _check_loss(forward, wanted, trained)

    def call() -> None:
        wanted().backward()
        optimizer.step()
        optimizer.zero_grad()

    def state() -> Iterator[Tensor]:
        for one in optimizer.state.values():
            yield from (value for value in one.values() if isinstance(value, Tensor))

    return Step(call=call, held=state)


def _check_loss(forward: Forward, wanted: Callable[[], Tensor], trained: Sequence[nn.Parameter]) -> None:
    """Make sure that the loss is one of the model that it is given.

    Raises:
        MeasurementError: it is no scalar that gradients can be taken of, or of nothing in that model.
    """
    remedy = "loss takes the model and returns a scalar tensor that depends on it"
    with forward.blamed("loss", remedy), torch.enable_grad():
        value = wanted()
    if not isinstance(value, Tensor) or value.numel() != 1:
        came = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise MeasurementError(f"the loss of {forward.name} is {came}; {remedy}")
    known = value.requires_grad and any(
        gradient is not None for gradient in torch.autograd.grad(value, trained, allow_unused=True)
    )
    if not known:
        raise MeasurementError(
            f"the loss of {forward.name} depends on none of its parameters: it may use another model than the one that "
            f"it is given; {remedy}"
        )


def _mean_square(forward: Forward) -> Tensor:
    outputs = [tensor for tensor in held_tensors(forward()) if tensor.requires_grad]
    if not outputs:
        raise MeasurementError(
            f"what {forward.name} returns carries no gradient, so it takes no training step; "
            f"give the task a loss, or measure mode: forward"
        )
    return torch.stack([tensor.float().square().mean() for tensor in outputs]).sum()
