import pytest
import torch
from torch import nn

from headtune.surgery.slicing import drop_inputs, drop_last, drop_outputs, silence, why_not_sliced


class Conv1D(nn.Module):
    """As in transformers: the weight is (in, out)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf)), nn.Parameter(torch.randn(nf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


Conv1D.__module__ = "transformers.pytorch_utils"


def sizes(module: nn.Module) -> tuple[object, object]:
    return (module.nf, module.nx) if isinstance(module, Conv1D) else (module.out_features, module.in_features)


@pytest.mark.parametrize("build", [nn.Linear, lambda read, made: Conv1D(made, read)])
def test_what_is_left_computes_as_before(build: type[nn.Linear]) -> None:
    module, x = build(5, 6), torch.randn(3, 5)
    before = module(x)
    drop_outputs(module, {0, 4})
    torch.testing.assert_close(module(x), before[:, [1, 2, 3, 5]], rtol=0, atol=1e-6)
    assert sizes(module) == (4, 5)


@pytest.mark.parametrize("build", [nn.Linear, lambda read, made: Conv1D(made, read)])
def test_dropped_inputs_are_inputs_of_zero(build: type[nn.Linear]) -> None:
    module, x = build(5, 6), torch.randn(3, 5)
    zeroed = x.clone()
    zeroed[:, [1, 3]] = 0
    before = module(zeroed)
    drop_inputs(module, {1, 3})
    torch.testing.assert_close(module(x[:, [0, 2, 4]]), before, rtol=0, atol=1e-6)
    assert sizes(module) == (6, 3)


@pytest.mark.parametrize("build", [nn.Linear, lambda read, made: Conv1D(made, read)])
def test_silenced_inputs_are_ignored(build: type[nn.Linear]) -> None:
    module, x = build(5, 6), torch.randn(3, 5)
    kept, old = module.weight, module.weight.clone()
    silence(module, {1, 3})
    other = x.clone()
    other[:, [1, 3]] = 7
    assert torch.equal(module(x), module(other))
    assert torch.equal(kept, old)
    assert sizes(module) == (6, 5)


def test_type_gradients_and_biases_stay_as_they_are() -> None:
    linear = nn.Linear(4, 4, bias=False).to(torch.bfloat16)
    linear.weight.requires_grad_(False)
    values = linear.weight.clone()
    drop_outputs(linear, {2})
    assert linear.bias is None
    assert (linear.weight.dtype, linear.weight.requires_grad) == (torch.bfloat16, False)
    assert torch.equal(linear.weight, values[[0, 1, 3]])
    frozen = nn.Linear(4, 4)
    frozen.bias.requires_grad_(False)
    drop_outputs(frozen, {2})
    assert (frozen.weight.requires_grad, frozen.bias.requires_grad) == (True, False)
    bias = frozen.bias
    drop_inputs(frozen, {0})
    assert frozen.bias is bias


def test_parameters_lose_features_of_their_last_dimension() -> None:
    module = nn.Module()
    module.bias_k = nn.Parameter(torch.arange(6.0).view(1, 1, 6), requires_grad=False)
    drop_last(module, "bias_k", {0, 1, 4})
    assert module.bias_k.tolist() == [[[2, 3, 5]]]
    assert not module.bias_k.requires_grad


def test_parameters_made_in_inference_mode_can_be_cut() -> None:
    with torch.inference_mode():
        linear = nn.Linear(3, 3)
    drop_outputs(linear, {0})
    linear(torch.ones(1, 3)).sum().backward()
    assert linear.weight.grad is not None


class Scaled(nn.Linear):
    pass


def model(**layers: nn.Module) -> nn.Module:
    return nn.ModuleDict(layers)


def test_linear_maps_and_their_subclasses_can_be_cut() -> None:
    for layer in (nn.Linear(2, 2), Scaled(2, 2), Conv1D(2, 2), nn.Linear(2, 2).bfloat16()):
        assert why_not_sliced(model(q=layer), "q.weight") is None


def quantised() -> nn.Linear:
    linear = nn.Linear(2, 2)
    linear.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.int8), requires_grad=False)
    return linear


class Sharded(nn.Parameter):
    pass


def sharded() -> nn.Linear:
    linear = nn.Linear(2, 2)
    linear.weight = Sharded(torch.ones(2, 2))
    return linear


def with_low_rank() -> nn.Linear:
    linear = nn.Linear(2, 2)
    linear.lora_B = nn.Parameter(torch.ones(2, 1))
    return linear


@pytest.mark.parametrize(
    ("layer", "weight", "reason"),
    [
        (
            nn.Conv1d(2, 2, 1),
            "q.weight",
            "q.weight belongs to Conv1d, and only nn.Linear and Conv1D can change their size; "
            "let an nn.Linear stand there",
        ),
        (
            with_low_rank(),
            "q.lora_B",
            "q.lora_B belongs to Linear, and only nn.Linear and Conv1D can change their size; "
            "let an nn.Linear stand there",
        ),
        (
            nn.Linear(2, 2, device="meta"),
            "q.weight",
            "weight of q.weight is on the meta device (offloaded, or not loaded): load the whole model first",
        ),
        (
            quantised(),
            "q.weight",
            "q.weight is a torch.int8, not a plain tensor of numbers; cut before sharding or quantisation",
        ),
        (
            sharded(),
            "q.weight",
            "q.weight is a Sharded, not a plain tensor of numbers; cut before sharding or quantisation",
        ),
    ],
)
def test_what_cannot_be_cut_has_a_reason(layer: nn.Module, weight: str, reason: str) -> None:
    assert why_not_sliced(model(q=layer), weight) == reason
