from dataclasses import replace

import pytest
from torch import nn

from headtune.trial.task import Inputs, Task


def inputs(batch_size: int, seq_len: int | None) -> Inputs:
    return ()


def test_only_model_and_inputs_must_be_named() -> None:
    task = Task(model=nn.Identity, inputs=inputs)
    assert (task.train, task.evaluate, task.test, task.batches, task.loss) == (None,) * 5
    with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: 'inputs'"):
        Task(model=nn.Identity)  # type: ignore[call-arg]


def test_its_parts_go_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        Task(nn.Identity, inputs)  # type: ignore[misc]


def test_it_is_a_value() -> None:
    task = Task(model=nn.Identity, inputs=inputs)
    assert task == Task(model=nn.Identity, inputs=inputs)
    assert task != replace(task, model=nn.Flatten)
    with pytest.raises(AttributeError):
        task.model = nn.Flatten  # type: ignore[misc]
