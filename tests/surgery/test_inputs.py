from collections import OrderedDict
from threading import Lock
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.surgery.inputs import call, check_inputs, own_copy


class Difference(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left - right


def test_a_tuple_is_positional_and_a_mapping_is_by_name() -> None:
    one, two = torch.ones(1), torch.full((1,), 2.0)
    assert call(Difference(), (one, two)) == -1
    assert call(Difference(), {"right": one, "left": two}) == 1
    assert call(Difference(), OrderedDict(left=one, right=one)) == 0


class Using(nn.Module):
    """Does to its inputs what a model can do."""

    def forward(self, batch: dict[str, Tensor], cache: SimpleNamespace, *more: list[Tensor]) -> Tensor:
        x = batch.pop("x")
        x += 1
        cache.keys.append(x)
        more[0].clear()
        return x


def test_every_pass_gets_inputs_of_its_own() -> None:
    x = torch.zeros(2)
    inputs = ({"x": x}, SimpleNamespace(keys=[]), [x])
    for _ in range(2):
        assert call(Using(), inputs).tolist() == [1, 1]
    assert (x.tolist(), list(inputs[0]), inputs[1].keys, len(inputs[2])) == ([0, 0], ["x"], [], 1)


def test_what_is_one_object_stays_one_and_types_stay() -> None:
    class Pair(NamedTuple):
        left: Tensor
        right: object

    x, lock, module = torch.ones(2, requires_grad=True), Lock(), nn.Linear(1, 1)
    made = own_copy({"pair": Pair(x, [x]), "grown": x * 2, "rest": (x, lock, module, OrderedDict(a=x))})
    (one, other), grown, (again, kept, same, mapping) = made["pair"][:2], made["grown"], made["rest"]
    assert one is other[0] is again is mapping["a"] is not x
    assert one.is_leaf
    assert one.requires_grad
    assert grown.is_leaf
    assert torch.equal(grown, x * 2)
    assert type(made["pair"]) is Pair
    assert type(mapping) is OrderedDict
    assert kept is lock
    assert same is module


def test_copies_made_in_inference_mode_can_be_trained_with() -> None:
    with torch.inference_mode():
        made = own_copy((torch.ones(2), SimpleNamespace(kept=torch.ones(2))))
    assert not made[0].is_inference()


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
