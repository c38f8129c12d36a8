import dataclasses

import pytest
import torch
from torch import nn

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
