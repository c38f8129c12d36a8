import pytest
import torch
from torch import nn

from headtune.nn import SharedLinear
from headtune.surgery.repeating import repeating

POOLS = (((0, 1), (2, 3)), ((4, 5), (6, 7)))  # four heads of two features become two


def linear(bias: bool = True) -> nn.Linear:
    """Eight features, of which those of a pool are equal already."""
    made = nn.Linear(3, 8, bias)
    with torch.no_grad():
        for pool in POOLS:
            for parameter in made.parameters():
                parameter[list(pool[1])] = parameter[list(pool[0])]
    return made


@pytest.mark.parametrize("bias", [True, False])
def test_the_same_from_half_of_the_weights(bias: bool) -> None:
    whole, x = linear(bias), torch.randn(2, 3)
    whole.weight.requires_grad_(False)
    half = repeating(whole, POOLS)
    assert half.weight.shape == (4, 3)
    assert half.source.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert torch.allclose(half(x), whole(x), rtol=0, atol=1e-6)  # float32 rounding
    assert not half.weight.requires_grad
    assert all(parameter.requires_grad for name, parameter in half.named_parameters() if name == "bias")


def test_features_of_no_pool_stay() -> None:
    assert repeating(linear(), POOLS[:1]).source.tolist() == [0, 1, 0, 1, 2, 3, 4, 5]


def test_of_what_repeats_already() -> None:
    half = repeating(linear(), POOLS)
    with torch.no_grad():
        for parameter in half.parameters():
            parameter[2:] = parameter[:2]
    quarter = repeating(half, (((0, 1), (2, 3)),))
    assert isinstance(quarter, SharedLinear)
    assert quarter.source.tolist() == [0, 1] * 4
    x = torch.randn(2, 3)
    assert torch.allclose(quarter(x), half(x), rtol=0, atol=1e-6)


def test_hooks_and_mode_stay() -> None:
    whole, seen = linear().eval(), []
    whole.register_forward_hook(lambda *_: seen.append(1))
    half = repeating(whole, POOLS)
    half(torch.randn(3))
    assert seen == [1]
    assert not half.training
