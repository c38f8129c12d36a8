import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import MeasurementError
from headtune.timing import LatencyProtocol, measure, peak_memory_mb
from headtune.timing.forward import Forward
from headtune.timing.inputs import Given
from headtune.timing.train_step import training_step

PROTOCOL = LatencyProtocol(device="cpu", threads=1, batch_size=2, mode="train_step", max_seconds=0.5)


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    return (torch.ones(batch_size, 3),)


def forward_of(model: nn.Module) -> Forward:
    return Forward(name="it", model=model, given=Given(inputs(2, None)))


class Spun(torch.autograd.Function):
    """The identity, busy in its backward pass for a planted time."""

    @staticmethod
    def forward(ctx: object, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds  # type: ignore[attr-defined]
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        end = time.perf_counter() + ctx.seconds  # type: ignore[attr-defined]
        while time.perf_counter() < end:
            pass
        return gradient, None


class Backwards(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.layer, self.seconds = nn.Linear(3, 3), seconds

    def forward(self, x: Tensor) -> Tensor:
        return Spun.apply(self.layer(x), self.seconds)  # type: ignore[no-any-return, no-untyped-call]


def test_a_step_is_the_gradient_of_the_mean_square_and_moves_no_weight() -> None:
    layer = nn.Linear(3, 3)
    before, seen = layer.weight.detach().clone(), []
    layer.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad.clone()))  # type: ignore[union-attr]
    step = training_step(forward_of(layer), PROTOCOL, None)
    for _ in range(3):
        step.call()
    # d/dW mean((Wx + b)²) over 2 × 3 values: 2 / 6 Σ (Wx + b) xᵀ.
    (x,) = inputs(2, None)
    expected = (2 / 6) * layer(x).T @ x
    assert len(seen) == 3
    assert all(torch.allclose(gradient, expected) for gradient in seen)
    assert torch.equal(layer.weight, before)
    assert layer.weight.grad is None


def test_the_persons_loss_is_what_is_trained_on() -> None:
    layer, losses = nn.Linear(3, 3), []

    def loss(model: nn.Module) -> Tensor:
        losses.append((model is layer, torch.is_grad_enabled()))
        value: Tensor = model(torch.zeros(1, 3)).sum()
        return value

    step = training_step(forward_of(layer), PROTOCOL, loss)
    losses.clear()  # what was asked to see whether it is a loss of the model
    step.call()
    assert losses == [(True, True)]
    assert layer.weight.grad is None


def test_the_time_of_the_backward_pass_counts() -> None:
    # 4 ms against 1 ms of planted backward work; the rest of a step takes a few tenths of a millisecond.
    low, high = measure(Backwards(4e-3), inputs, PROTOCOL, reference=Backwards(1e-3)).interval
    assert high >= 2
    assert low <= 4


def test_the_persons_model_learns_nothing_and_keeps_its_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    profile = measure(model, inputs, PROTOCOL)
    assert profile.protocol.mode == "train_step"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.ReLU(), "the model has no parameter that requires gradients, so it takes no training step"),
        (
            nn.Sequential(nn.Linear(3, 3), nn.Threshold(1e9, 0.0)).requires_grad_(False),
            "the model has no parameter that requires gradients, so it takes no training step",
        ),
    ],
)
def test_what_cannot_be_trained(model: nn.Module, said: str) -> None:
    with pytest.raises(MeasurementError) as caught:
        measure(model, inputs, PROTOCOL)
    assert str(caught.value) == said


def test_outputs_without_a_gradient() -> None:
    class Counting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input).argmax(-1)

    with pytest.raises(MeasurementError, match=r"^what the model returns carries no gradient, .* mode: forward$"):
        measure(Counting(3, 3), inputs, PROTOCOL)


def test_a_loss_that_raises_is_told_as_the_loss() -> None:
    def loss(model: nn.Module) -> Tensor:
        raise KeyError("targets")

    with pytest.raises(MeasurementError, match=r"^the model failed in its loss: KeyError: 'targets'.*takes the model"):
        measure(nn.Linear(3, 3), inputs, PROTOCOL, loss=loss)


def test_a_loss_of_another_model_is_refused_and_leaves_that_without_gradients() -> None:
    model = nn.Linear(3, 3)
    with pytest.raises(MeasurementError, match="depends on none of its parameters: it may use another model"):
        measure(model, inputs, PROTOCOL, loss=lambda given: model(torch.zeros(1, 3)).sum())
    assert model.weight.grad is None


@pytest.mark.parametrize(
    ("loss", "came"),
    [
        (lambda model: 5.0, "a float"),
        (lambda model: model(torch.zeros(1, 3)), r"a tensor of shape \[1, 3\]"),
        (lambda model: torch.zeros(()), "none of its parameters"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Callable[[nn.Module], Tensor], came: str) -> None:
    with pytest.raises(MeasurementError, match=f"loss of the model .*{came}.*takes the model and returns a scalar"):
        measure(nn.Linear(3, 3), inputs, PROTOCOL, loss=loss)


def test_memory_is_that_of_weights_gradients_and_both_moments() -> None:
    width = 256
    weights = 4 * (width * width + width)
    x = torch.ones(2, width)
    found = peak_memory_mb(nn.Linear(width, width), (x,), PROTOCOL) * 1e6
    # Beside the four of them: a few activations, and two counters of steps of 4 bytes.
    assert 0 <= found - 4 * weights <= 8 * 4 * x.numel() + 64
    forward_only = peak_memory_mb(nn.Linear(width, width), (x,), replace(PROTOCOL, mode="forward")) * 1e6
    assert forward_only < 1.1 * weights
