"""A person's own file for a supernet: the tiny encoder, with batches, a loss, and a planted answer to the search."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

import headtune

WIDTH, LENGTH = 16, 5
Batch = tuple[torch.Tensor, torch.Tensor]


class Summer(nn.Module):
    """Features to one number per sequence."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 1)
        self.alone = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, WIDTH) → (B,)."""
        return self.head(self.encoder(x).mean(1)).squeeze(-1)


def inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
    """Features of the given sizes."""
    return (torch.randn(batch_size, seq_len or LENGTH, WIDTH),)


def examples(seed: int) -> Batch:
    """Sequences and their sums."""
    x = torch.randn(48, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))
    return x, x.sum((1, 2)) / WIDTH


def squared_error(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The mean over a batch."""
    x, y = batch
    return ((model(x) - y) ** 2).mean()


def heads_of(model: nn.Module) -> tuple[int, ...]:
    """Heads per layer, as the model has them now."""
    return tuple(layer.self_attn.num_heads for layer in model.encoder.layers)  # type: ignore[union-attr]


def task(
    best: Sequence[int] = (),
    misleading: bool = False,
    log: str | None = None,
    without: Sequence[str] = (),
    lr: bool = False,
    metric: str = "quality",
) -> headtune.Task:
    """The task.

    Args:
        best: heads of each layer of the plan that is planted as the best; the error on other data if empty.
        misleading: whether the planted quality is turned round where a plan is trained by itself.
        log: a file that gets a line for each pass over the batches: the heads that the model has in ``loss``.
        without: functions that are left out.
        lr: whether the model is built with a param of that name.
        metric: what ``evaluate`` calls the quality.
    """
    seen: list[str] = []

    def batches() -> Iterator[Batch]:
        if log is not None:
            with Path(log).open("a") as file:
                file.write(" ".join(["pass", *seen]) + "\n")
        seen.clear()
        x, y = examples(0)
        for rows in torch.randperm(len(x)).split(16):
            yield x[rows], y[rows]

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        seen.append("-".join(map(str, heads_of(model))))
        return squared_error(model, batch)

    def evaluate(model: nn.Module) -> dict[str, float]:
        if not best:
            return {metric: -float(squared_error(model, examples(1)))}
        planted = -float(sum(abs(a.bit_length() - b.bit_length()) for a, b in zip(heads_of(model), best, strict=True)))
        return {metric: -planted if misleading and model.alone else planted}

    def train(model: nn.Module, run: headtune.Run) -> None:
        model.alone = True  # type: ignore[assignment]
        for _ in range(run.epochs):
            run.report(**evaluate(model))

    def with_lr(lr: float = 0.1) -> nn.Module:
        return Summer()

    functions = {"evaluate": evaluate, "batches": batches, "loss": loss}
    given = {name: function for name, function in functions.items() if name not in without}
    return headtune.Task(model=with_lr if lr else Summer, inputs=inputs, train=train, **given)  # type: ignore[arg-type]
