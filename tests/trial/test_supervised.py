import pickle
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import TaskError
from headtune.trial.descent import FitOptions
from headtune.trial.fitting import Fit
from headtune.trial.reference import TaskObject
from headtune.trial.run import Run
from headtune.trial.supervised import Supervised
from headtune.trial.task import Task

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True)


def model() -> nn.Module:
    return nn.Linear(4, 1)


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    return (torch.randn(batch_size, 4),)


def batches() -> list[Tensor]:
    return list(torch.randperm(len(X)).split(4))


def loss(model: nn.Module, rows: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(X[rows]), Y[rows])


def evaluate(model: nn.Module) -> Mapping[str, float]:
    return {"val_loss": loss(model, torch.arange(16)).item()}


PARTS: dict[str, Any] = {
    "model": model,
    "inputs": inputs,
    "batches": batches,
    "loss": loss,
    "evaluate": evaluate,
    "test": evaluate,
    "monitor": "val_loss",
    "mode": "min",
}


def test_it_is_a_task_that_keeps_its_contract() -> None:
    task = Supervised(**PARTS)
    assert isinstance(task, Task)
    assert (task.model, task.inputs, task.evaluate, task.test, task.batches, task.loss) == (
        *(model, inputs, evaluate, evaluate, batches, loss),
    )
    assert TaskObject(task).load() is task


def test_the_numbers_reach_the_training() -> None:
    train = Supervised(
        **PARTS, lr=0.5, weight_decay=0.0, warmup=0.2, clip=2.0, autocast=torch.bfloat16, save_every_s=1.0
    ).train
    assert train == Fit(
        batches=batches,
        loss=loss,
        evaluate=evaluate,
        monitor="val_loss",
        mode="min",
        options=FitOptions(lr=0.5, weight_decay=0.0, warmup=0.2, clip=2.0),
        autocast=torch.bfloat16,
        save_every_s=1.0,
    )


def test_it_trains() -> None:
    task = Supervised(**PARTS, lr=0.1)
    torch.manual_seed(0)
    network = task.model()
    before = evaluate(network)["val_loss"]
    assert task.train is not None
    task.train(network, Run(epochs=30, device="cpu"))
    assert evaluate(network)["val_loss"] < 0.05 * before


def test_it_crosses_processes() -> None:
    task = Supervised(**PARTS)
    assert pickle.loads(pickle.dumps(task)) == task


def test_the_studys_learning_rate_is_taken() -> None:
    def weights(lr: float, params: Mapping[str, float]) -> Tensor:
        torch.manual_seed(0)
        network = model()
        train = Supervised(**PARTS, lr=lr).train
        assert train is not None
        train(network, Run(epochs=2, params=params, device="cpu"))
        return network.weight.detach()

    assert torch.equal(weights(0.1, {"lr": 0.02}), weights(0.02, {}))
    assert not torch.equal(weights(0.1, {"lr": 0.02}), weights(0.1, {}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "maximize"}, "Supervised: mode is max or min, got 'maximize'"),
        (
            {"autocast": torch.float64},
            "Supervised: autocast is torch.bfloat16, torch.float16 or None, got torch.float64",
        ),
        ({"lr": -1.0}, "Supervised: lr must be above 0, got -1.0"),
        ({"lr": "x"}, "Supervised: lr must be a number, got 'x'"),
        ({"save_every_s": "1"}, "Supervised: save_every_s must be 0 or more seconds, got '1'"),
    ],
)
def test_options_out_of_range_are_refused_when_the_task_is_made(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError) as caught:
        Supervised(**{**PARTS, **wrong})
    assert str(caught.value) == message
