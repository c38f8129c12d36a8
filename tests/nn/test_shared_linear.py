from collections.abc import Callable

import pytest
import torch
from torch import nn

from headtune.nn import SharedLinear


@pytest.mark.parametrize("bias", [True, False])
def test_equals_a_linear_map_with_those_rows_repeated(bias: bool) -> None:
    source = [0, 2, 2, 1, 0]
    shared = SharedLinear(6, 3, len(source), bias, dtype=torch.float64)
    for parameter in shared.parameters():
        nn.init.normal_(parameter)
    shared.put_out(source)
    whole = nn.Linear(6, len(source), bias, dtype=torch.float64)
    whole.load_state_dict({name: tensor[source] for name, tensor in shared.named_parameters()})
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    assert torch.allclose(shared(x), whole(x), rtol=0, atol=1e-14)  # rounding: another shape of product
    assert (shared.in_features, shared.made, shared.out_features) == (6, 3, 5)
    assert repr(shared) == f"SharedLinear(in_features=6, made=3, out_features=5, bias={bias})"


def test_gradients_of_shared_features_add_up() -> None:
    shared = SharedLinear(2, 1, 3, bias=False)
    shared(torch.ones(2)).sum().backward()
    assert shared.weight.grad is not None
    assert shared.weight.grad.tolist() == [[3, 3]]


def test_what_is_put_out_is_saved_and_loaded() -> None:
    saved, loaded = SharedLinear(2, 2, 4), SharedLinear(2, 2, 4)
    saved.put_out([1, 0, 1, 1])
    loaded.load_state_dict(saved.state_dict())
    assert loaded.source.tolist() == [1, 0, 1, 1]
    assert saved.half().source.dtype == torch.long


@pytest.mark.parametrize("cast", [lambda x: x.type(torch.bfloat16), lambda x: x.half(), lambda x: x.to("meta")])
def test_a_cast_leaves_the_numbers_of_the_features(cast: Callable[[SharedLinear], SharedLinear]) -> None:
    shared = SharedLinear(2, 300, 2)
    shared.put_out([257, 299])  # no bfloat16 holds these
    shared = cast(shared)
    assert shared.source.dtype == torch.long
    assert shared.source.is_meta or shared.source.tolist() == [257, 299]
    assert shared(torch.ones(1, 2, dtype=shared.weight.dtype, device=shared.weight.device)).shape == (1, 2)
