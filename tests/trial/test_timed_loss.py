from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import TaskError
from headtune.timing import LatencyProtocol, measure
from headtune.trial.task import Task
from headtune.trial.timed_loss import timed_loss

PROTOCOL = LatencyProtocol(device="cpu", threads=1, mode="train_step", max_seconds=0.2)
BATCH = (torch.ones(7, 3), torch.zeros(7, dtype=torch.long))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def task(**changed: object) -> Task:
    return replace(
        Task(
            model=lambda: nn.Linear(3, 2),
            inputs=lambda batch_size, seq_len: (torch.ones(batch_size, 3),),
            batches=lambda: [BATCH],
            loss=loss,
        ),
        **changed,  # type: ignore[arg-type]
    )


def test_the_loss_of_the_first_batch_and_its_size() -> None:
    model = nn.Linear(3, 2)
    found, protocol = timed_loss(task(), PROTOCOL)
    assert found is not None
    assert torch.equal(found(model), loss(model, BATCH))
    assert protocol == replace(PROTOCOL, batch_size=7)
    profile = measure(model, task().inputs, protocol, loss=found)
    assert profile.protocol.batch_size == 7


@pytest.mark.parametrize(
    ("changed", "protocol"),
    [
        ({}, replace(PROTOCOL, mode="forward")),
        ({}, replace(PROTOCOL, seq_len=16)),
        ({"loss": None}, PROTOCOL),
        ({"batches": None}, PROTOCOL),
    ],
)
def test_else_the_outputs_are_what_is_trained_on(changed: dict[str, object], protocol: LatencyProtocol) -> None:
    assert timed_loss(task(**changed), protocol) == (None, protocol)


def test_no_batch() -> None:
    with pytest.raises(TaskError, match=r"^task\.batches returned no batch, and mode: train_step"):
        timed_loss(task(batches=list), PROTOCOL)


def test_a_loss_that_raises_is_told_as_the_tasks() -> None:
    def broken(model: nn.Module, batch: object) -> Tensor:
        raise KeyError("labels")

    found, protocol = timed_loss(task(loss=broken), PROTOCOL)
    with pytest.raises(TaskError, match=r"^task\.loss raised KeyError: 'labels'"):
        measure(nn.Linear(3, 2), task().inputs, protocol, loss=found)
