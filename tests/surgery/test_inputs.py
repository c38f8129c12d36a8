from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.surgery.inputs import call, check_inputs


class Difference(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left - right


def test_a_tuple_is_positional_and_a_mapping_is_by_name() -> None:
    one, two = torch.ones(1), torch.full((1,), 2.0)
    assert call(Difference(), (one, two)) == -1
    assert call(Difference(), {"right": one, "left": two}) == 1
    assert call(Difference(), OrderedDict(left=one, right=one)) == 0


@pytest.mark.parametrize("inputs", [(), (1, "a"), {}, {"x": 1}])
def test_any_tuple_or_mapping_will_do(inputs: object) -> None:
    check_inputs(inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            torch.ones(1),
            "inputs came as Tensor: write (tensor,) for one positional argument, "
            "or {'name': tensor} for a keyword argument",
        ),
        ([1], "inputs came as list: write tuple(inputs) for positional arguments"),
        (
            "batch",
            "inputs came as str: give the positional arguments of forward as a tuple, "
            "or its keyword arguments as a dict",
        ),
    ],
    ids=["tensor", "list", "string"],
)
def test_anything_else_is_refused_with_how_to_write_it(inputs: object, message: str) -> None:
    with pytest.raises(SurgeryError) as caught:
        check_inputs(inputs)
    assert str(caught.value) == message
