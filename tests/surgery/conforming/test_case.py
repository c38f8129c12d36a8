import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.surgery import Case, Finding


def test_precise_inputs_are_the_same_in_float64() -> None:
    ids, x = torch.tensor([1, 2]), torch.tensor([0.1], dtype=torch.float32)
    positional = Case(name="any", build=lambda: nn.Linear(1, 1), inputs=(x, ids, None)).precise_inputs
    assert isinstance(positional, tuple)
    assert torch.equal(positional[0], x.double())
    assert positional[1] is ids
    assert positional[2] is None
    named = Case(name="any", build=lambda: nn.Linear(1, 1), inputs={"x": x, "use_cache": False}).precise_inputs
    assert isinstance(named, dict)
    assert named["x"].dtype == torch.float64
    assert named["use_cache"] is False


def test_both_are_values() -> None:
    assert (
        Finding(proven=True, words="done") == Finding(proven=True, words="done") != Finding(proven=False, words="done")
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        Finding(proven=True, words="done").words = "else"  # type: ignore[misc]


def test_a_case_of_wrong_types_is_an_error_about_the_case() -> None:
    wrong: Any = {"name": "", "build": nn.Linear(1, 1).weight, "inputs": lambda: (), "rebuild": 5}
    with pytest.raises(SurgeryError) as caught:
        Case(**wrong)
    assert [problem.partition(" (got ")[0] for problem in caught.value.problems] == [
        "Case: name: must not be empty",
        "Case: build: must be a function that returns the member",
        "Case: inputs: must be what forward takes: a tuple, or a dict of keywords",
        "Case: rebuild: must be a function of a plan, or None",
    ]
