import copy

import pytest
import torch
from torch import nn

from headtune.surgery.adapters.linears import resize_linear


@pytest.mark.parametrize("bias", [True, False])
def test_new_rows_are_drawn_as_the_module_draws_them(bias: bool) -> None:
    linear = nn.Linear(4, 6, bias)
    torch.manual_seed(3)
    resize_linear(linear, rows=9)
    torch.manual_seed(3)
    fresh = nn.Linear(4, 9, bias)
    assert (linear.out_features, linear.in_features) == (9, 4)
    assert torch.equal(linear.weight, fresh.weight)
    assert linear.bias is None if not bias else torch.equal(linear.bias, fresh.bias)


def test_new_columns_leave_the_bias() -> None:
    linear = nn.Linear(4, 6)
    bias = linear.bias
    resize_linear(linear, columns=3)
    assert linear.weight.shape == (6, 3)
    assert linear.bias is bias
    assert linear(torch.ones(2, 3)).shape == (2, 6)


def test_the_same_size_changes_nothing() -> None:
    linear = nn.Linear(4, 6)
    weight, before = linear.weight, copy.deepcopy(linear.state_dict())
    resize_linear(linear, rows=6, columns=4)
    assert linear.weight is weight
    assert all(torch.equal(value, before[name]) for name, value in linear.state_dict().items())


def test_old_parameters_keep_their_values() -> None:
    linear = nn.Linear(4, 6)
    weight, bias = linear.weight, linear.bias
    values = weight.detach().clone(), bias.detach().clone()
    resize_linear(linear, rows=2)
    assert torch.equal(weight, values[0])
    assert torch.equal(bias, values[1])


def test_type_device_gradients_and_hooks_are_kept() -> None:
    linear = nn.Linear(4, 6, dtype=torch.float64)
    linear.weight.requires_grad_(False)
    calls: list[int] = []
    linear.register_forward_hook(lambda *_: calls.append(1))
    resize_linear(linear, rows=2)
    assert linear.weight.dtype == torch.float64
    assert not linear.weight.requires_grad
    assert linear.bias.requires_grad
    linear(torch.ones(1, 4, dtype=torch.float64))
    assert calls == [1]
    meta = nn.Linear(4, 6, device="meta")
    resize_linear(meta, rows=2)
    assert meta.weight.is_meta


def test_a_subclass_keeps_its_class_and_its_own_distribution() -> None:
    class Zeroed(nn.Linear):
        def reset_parameters(self) -> None:
            nn.init.zeros_(self.weight)
            nn.init.ones_(self.bias)

    linear = Zeroed(4, 6)
    resize_linear(linear, rows=5)
    assert type(linear) is Zeroed
    assert not linear.weight.any()
    assert torch.equal(linear.bias, torch.ones(5))
