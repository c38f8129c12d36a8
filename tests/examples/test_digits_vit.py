import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import headtune
from headtune.trial.importing import import_file
from headtune.trial.task import Task

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_vit.py"


@pytest.fixture(scope="module")
def digits_vit() -> ModuleType:
    return import_file(EXAMPLE, "digits_vit")


def originals(digits_vit: ModuleType, pictures: Tensor) -> list[bytes]:
    """The pictures as scikit-learn has them: back from the standardised ones."""
    raw = torch.tensor(load_digits().data, dtype=torch.float32).view(-1, 8, 8)
    low, high = pictures.min(), pictures.max()
    scale = (high - low) / (raw.max() - raw.min())
    return [bytes(row.flatten().tolist()) for row in ((pictures - low) / scale).round().to(torch.uint8)]


def test_every_digit_is_in_exactly_one_split(digits_vit: ModuleType) -> None:
    splits = [digits_vit.train, digits_vit.val, digits_vit.test]
    pictures = torch.cat([x for x, _ in splits])
    raw = load_digits().data
    assert sorted(originals(digits_vit, pictures)) == sorted(bytes(int(v) for v in row) for row in raw)
    assert sum(len(y) for _, y in splits) == 1797


def test_the_splits_are_stratified(digits_vit: ModuleType) -> None:
    for _, labels in (digits_vit.train, digits_vit.val, digits_vit.test):
        counts = labels.bincount(minlength=10)
        assert counts.min() >= 0.09 * len(labels)
        assert counts.max() <= 0.11 * len(labels)


def test_pictures_are_scaled_by_the_training_ones_alone(digits_vit: ModuleType) -> None:
    pictures, _ = digits_vit.train
    assert pictures.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert pictures.std().item() == pytest.approx(1.0, abs=1e-5)
    assert abs(digits_vit.test[0].mean().item()) > 1e-4


def test_patches_are_squares_in_reading_order(digits_vit: ModuleType) -> None:
    picture = torch.arange(64.0).view(1, 8, 8)
    seen: list[Tensor] = []
    model = digits_vit.ViT()
    model.patch.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    model(picture)
    (patches,) = seen
    assert patches.shape == (1, 16, 4)
    assert patches[0, 0].tolist() == [0, 1, 8, 9]
    assert patches[0, 1].tolist() == [2, 3, 10, 11]
    assert patches[0, 4].tolist() == [16, 17, 24, 25]


def test_every_pixel_moves_the_logits(digits_vit: ModuleType) -> None:
    torch.manual_seed(0)
    picture = torch.randn(1, 8, 8, requires_grad=True)
    digits_vit.ViT()(picture).square().sum().backward()
    assert picture.grad is not None
    assert (picture.grad != 0).all()


def test_an_epoch_has_each_training_digit_once(digits_vit: ModuleType) -> None:
    labels = torch.cat([y for _, y in digits_vit.batches()])
    assert labels.sort().values.equal(digits_vit.train[1].sort().values)
    assert not torch.cat([y for _, y in digits_vit.batches()]).equal(labels)


def test_accuracy_counts_what_is_right(digits_vit: ModuleType) -> None:
    model = digits_vit.ViT()
    with torch.no_grad():
        model.digit.weight.zero_()
        model.digit.bias.copy_(torch.arange(10) == 3)
    labels = torch.tensor([3, 3, 7, 3])
    assert digits_vit.accuracy(model, (torch.zeros(4, 8, 8), labels)) == 0.75


def test_a_few_epochs_teach_it_something(digits_vit: ModuleType) -> None:
    task: Task = digits_vit.task
    torch.manual_seed(0)
    model = task.model()
    run = headtune.Run(epochs=6, device="cpu")
    assert task.train is not None
    assert task.evaluate is not None
    task.train(model, run)
    assert task.evaluate(model)["val_accuracy"] > 0.5  # chance is 0.1
    assert set(run.last) == {"train_loss", "val_accuracy"}
    assert model(*task.inputs(3, None)).shape == (3, 10)


@pytest.mark.slow
def test_it_runs_alone() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], check=True, capture_output=True, text=True, timeout=300)
    assert float(done.stdout.removeprefix("test accuracy: ")) > 0.9
