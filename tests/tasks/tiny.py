"""A person's own file, as small as it can be: a two-layer encoder that learns to sum its input, in milliseconds."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

import headtune

WIDTH, LENGTH = 16, 5


class Summer(nn.Module):
    """Features to one number per sequence."""

    def __init__(self, layers: int, dropout: float) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, WIDTH) → (B,)."""
        return self.head(self.encoder(x).mean(1)).squeeze(-1)


def inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
    """Features of the given sizes."""
    return (torch.randn(batch_size, seq_len or LENGTH, WIDTH),)


def data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences and their sums, always the same for a seed."""
    x = torch.randn(64, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))
    return x, x.sum((1, 2)) / WIDTH


def score(model: nn.Module, seed: int) -> float:
    """Minus the mean squared error."""
    x, y = data(seed)
    model.eval()
    with torch.no_grad():
        return -float(((model(x) - y) ** 2).mean())


def heads_of(model: nn.Module) -> tuple[int, ...]:
    """Heads per layer, as the model has them now."""
    return tuple(layer.self_attn.num_heads for layer in model.encoder.layers)  # type: ignore[union-attr]


def task(
    bad: Mapping[str, str] | None = None,
    seconds_per_epoch: float = 0.0,
    log: str | None = None,
    layers: int = 2,
    test: bool = False,
    spared: Sequence[int] = (),
) -> headtune.Task:
    """The task.

    Args:
        bad: heads of the first layer → ``raise``, ``nan``, ``memory``, ``exit``, ``stop`` or ``silent``: what goes
            wrong there, unless the environment's TINY_MENDED is set.
        seconds_per_epoch: how long an epoch takes at least.
        log: a file that gets a line for each training that starts.
        layers: of the encoder, unless the environment's TINY_LAYERS says otherwise.
        test: whether there is a test score.
        spared: seeds with which nothing goes wrong.
    """

    def model(dropout: float = 0.0) -> nn.Module:
        return Summer(int(os.environ.get("TINY_LAYERS", layers)), dropout)

    def train(module: nn.Module, run: headtune.Run) -> None:
        heads = heads_of(module)
        if log is not None:
            with Path(log).open("a") as file:
                file.write(f"{'-'.join(map(str, heads))} {run.seed} {os.getpid()}\n")
        well = run.seed in spared or "TINY_MENDED" in os.environ
        fault = None if well else (bad or {}).get(str(heads[0]))
        x, y = data(0)
        optimizer = torch.optim.SGD(module.parameters(), lr=float(run.params.get("lr", 0.05)))
        for _ in range(run.epochs):
            time.sleep(seconds_per_epoch)
            fail(fault)
            module.train()
            loss = ((module(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if fault == "silent":
                run.report(other=1.0)
            else:
                run.report(quality=float("nan") if fault == "nan" else score(module, 1))

    return headtune.Task(
        model=model,
        inputs=inputs,
        train=train,
        test=(lambda module: {"test_quality": score(module, 2)}) if test else None,
    )


def fail(fault: str | None) -> None:
    """What goes wrong."""
    if fault == "raise":
        raise ValueError("the data is broken")
    if fault == "memory":
        raise MemoryError("no room for the batch")
    if fault == "stop":
        raise headtune.StopTrial
    if fault == "exit":
        os._exit(3)
