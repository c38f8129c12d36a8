import math

import pytest
import torch
from torch import nn

from headtune.surgery.adapters.scales import is_scale, rescaled, rescaled_tensor


@pytest.mark.parametrize("power", [-0.5, 0.5, -1.0, -0.25])
@pytest.mark.parametrize(("before", "after"), [(64, 16), (6, 24), (3, 1), (147, 7)])
def test_a_power_of_head_dim_follows_it(power: float, before: int, after: int) -> None:
    assert rescaled(before**power, before, after) == pytest.approx(after**power, rel=1e-12)


@pytest.mark.parametrize("value", [0.3, 2.0, 0.0, 8.1, -0.125])
def test_any_other_number_stays(value: float) -> None:
    assert rescaled(value, 64, 16) == value


def test_a_head_dim_of_one_counts_as_the_usual_power() -> None:
    assert rescaled(1.0, 1, 4) == 0.5


@pytest.mark.parametrize(
    "name",
    [
        "scale",
        "scaling",
        "softmax_scale",
        "temperature",
        "sqrt_d",
        "inv_norm_factor",
        "_scale",
        "attn_scaling",
        "dk_sqrt",
    ],
)
def test_names_of_scales(name: str) -> None:
    assert is_scale(name)


@pytest.mark.parametrize(
    "name", ["dropout", "p", "eps", "alpha", "num_heads", "res_scale", "layer_scale", "rope_scaling", "lora_scale"]
)
def test_names_of_other_numbers(name: str) -> None:
    assert not is_scale(name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_tensor_of_one_element_follows_in_its_own_precision(dtype: torch.dtype) -> None:
    new = rescaled_tensor(torch.tensor([6**-0.5], dtype=dtype), 6, 12)
    assert new.shape == (1,)
    assert new.dtype == dtype
    torch.testing.assert_close(new, torch.tensor([1 / math.sqrt(12)], dtype=dtype))


def test_a_parameter_stays_a_parameter() -> None:
    for requires_grad in (True, False):
        old = nn.Parameter(torch.tensor(6.0**0.5), requires_grad)
        new = rescaled_tensor(old, 6, 24)
        assert isinstance(new, nn.Parameter)
        assert new.requires_grad is requires_grad
        assert float(new) == pytest.approx(24**0.5)
        assert float(old) == pytest.approx(6**0.5)


def test_other_tensors_come_back_as_they_are() -> None:
    for tensor in (torch.ones(2), torch.tensor(2), torch.tensor(0.3), torch.tensor(0.5, device="meta")):
        assert rescaled_tensor(tensor, 4, 16) is tensor
