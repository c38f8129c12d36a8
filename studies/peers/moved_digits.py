"""The digits of ``examples/digits_vit.py``, each moved by up to a pixel: a task on which heads matter.

Where a digit always lies in the same place, a sum over its patches reads it nearly as well as attention does, and
plans differ by less than seeds. Moved digits have to be found first.
"""

import torch
import torch.nn.functional as F
from digits_vit import BATCH, Digits, ViT, inputs, loss, test, train, val
from torch import Tensor

import headtune

FAR = 1  # pixels, each way
VIEWS = 2  # of each digit that is evaluated


def moved(pictures: Tensor, generator: torch.Generator | None = None) -> Tensor:  # (N, 8, 8) -> (N, 8, 8)
    """Each picture moved at random, both ways."""
    count, side, _ = pictures.shape
    wide = F.pad(pictures, (FAR, FAR, FAR, FAR), value=pictures.min().item())
    down, right = (torch.randint(2 * FAR + 1, (count, 1), generator=generator) + torch.arange(side) for _ in range(2))
    return wide[torch.arange(count)[:, None, None], down[:, :, None], right[:, None, :]]


def batches() -> list[Digits]:
    """The training digits, shuffled and moved."""
    x, y = train
    return [(moved(x[rows]), y[rows]) for rows in torch.randperm(len(y)).split(BATCH)]


def views(*parts: Digits) -> Digits:
    """The same moved views of every digit, whatever was drawn before."""
    pictures, labels = (torch.cat(column) for column in zip(*parts, strict=True))
    generator = torch.Generator().manual_seed(0)
    return torch.cat([moved(pictures, generator) for _ in range(VIEWS)]), labels.repeat(VIEWS)


unseen = views(val, test)

task = headtune.Supervised(
    model=ViT,
    inputs=inputs,
    batches=batches,
    loss=loss,
    evaluate=lambda model: {"val_loss": loss(model, unseen).item()},
    monitor="val_loss",
    mode="min",
    lr=3e-3,
)
