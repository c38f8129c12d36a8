import json
from enum import StrEnum

import pytest
import torch
from torch import nn

from headtune.surgery.saving.values import NotJson, from_json, to_json


class Colour(StrEnum):
    RED = "red"


VALUES = [None, True, 3, 0.1 + 0.2, 1e-45, float("inf"), "text", [1, (2, [3])], (1, 2), {"a": (1,), "tuple": [1]}, {}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_through_json(value: object) -> None:
    back = from_json(json.loads(json.dumps(to_json(value))))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool],
    ids=str,
)
def test_tensors_come_back_to_the_last_bit(dtype: torch.dtype) -> None:
    value = (torch.randn(3, 1, 2, dtype=torch.float64) * 100).to(dtype)
    back = from_json(json.loads(json.dumps(to_json(value))))
    assert isinstance(back, torch.Tensor)
    assert back.dtype == dtype
    assert torch.equal(back, value)
    scalar = from_json(to_json(torch.tensor(0.1)))
    assert isinstance(scalar, torch.Tensor)
    assert scalar.shape == ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (nn.Linear(1, 1), "a Linear"),
        ([{1, 2}], "a set"),
        ({1: 2}, "a dict with keys that are no text"),
        (Colour.RED, "a Colour"),
        (torch.zeros(65537), "a Tensor"),
        (torch.zeros(1, device="meta"), "a Tensor"),
        (torch.zeros(1, dtype=torch.complex64), "a Tensor"),
    ],
    ids=["module", "set", "numbered dict", "enum", "large", "meta", "complex"],
)
def test_what_no_json_holds_is_named(value: object, words: str) -> None:
    with pytest.raises(NotJson) as caught:
        to_json(value)
    assert str(caught.value) == words
