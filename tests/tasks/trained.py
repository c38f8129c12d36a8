"""A person's trained model whose heads' worth is planted, small enough to prune in milliseconds."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import nn
from torch.nn import functional as F

import headtune

WIDTH, HEADS, SIZE, LENGTH = 16, 4, 4, 5

WORTH = ((0.003, 1.0, 0.3, 0.6), (1.0, 0.6, 0.003, 0.3))
"""How loud each head of the two layers is: what importance must find."""


class Attention(nn.Module):
    """Self-attention whose query heads may share key/value heads."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = HEADS, kv_heads, SIZE
        self.q, self.out = nn.Linear(WIDTH, HEADS * SIZE), nn.Linear(HEADS * SIZE, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, kv_heads * SIZE), nn.Linear(WIDTH, kv_heads * SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, WIDTH) → (B, T, WIDTH)."""
        q, k, v = (one(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for one in (self.q, self.k, self.v))
        heads = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        out: torch.Tensor = self.out(heads.transpose(1, 2).flatten(2))
        return out


class Stack(nn.Module):
    """Two residual layers."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(kv_heads) for _ in WORTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, WIDTH) → (B, T, WIDTH)."""
        for layer in self.layers:
            x = x + layer(x)
        return x


@cache
def trained(kv_heads: int) -> Stack:
    """The checkpoint: one object that everyone gets, as from a person who loads it once."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = Stack(kv_heads)
        # Values and outputs of equal norm, at right angles: the planted factors alone say what a head is worth.
        for layer, worth in zip(model.layers, WORTH, strict=True):
            nn.init.orthogonal_(layer.v.weight)
            nn.init.orthogonal_(layer.out.weight)
            nn.init.zeros_(layer.out.bias)
            with torch.no_grad():
                layer.out.weight.view(WIDTH, HEADS, SIZE).mul_(torch.tensor(worth)[None, :, None])
    return model


def data(seed: int) -> torch.Tensor:
    """Sequences, always the same for a seed."""
    return torch.randn(32, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def likeness(model: nn.Module, kv_heads: int, seed: int) -> float:
    """Minus the mean squared difference to what the trained model puts out."""
    x = data(seed)
    return -float(F.mse_loss(model(x), trained(kv_heads)(x)))


def task(kv_heads: int = HEADS, scored: bool = True, trains: bool = False, log: str | None = None) -> headtune.Task:
    """The task.

    Args:
        kv_heads: of each layer.
        scored: whether there is a loss with batches.
        trains: whether the pruned model is trained on.
        log: a file that gets a line each time that batches are asked for.
    """

    def batches() -> Sequence[torch.Tensor]:
        if log is not None:
            with open(log, "a") as file:  # noqa: PTH123
                file.write("asked\n")
        return [data(seed) for seed in (10, 11)]

    def train(model: nn.Module, run: headtune.Run) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(run.epochs):
            x = data(20)
            optimizer.zero_grad()
            F.mse_loss(model(x), trained(kv_heads)(x).detach()).backward()
            optimizer.step()
            run.report(likeness=likeness(model, kv_heads, 0))

    return headtune.Task(
        model=lambda: trained(kv_heads),
        inputs=lambda batch_size, seq_len: (torch.randn(batch_size, seq_len or LENGTH, WIDTH),),
        train=train if trains else None,
        evaluate=lambda model: {"likeness": likeness(model, kv_heads, 0)},
        test=lambda model: {"test_likeness": likeness(model, kv_heads, 1)},
        batches=batches if scored else None,
        loss=(lambda model, x: F.mse_loss(model(x), x)) if scored else None,
    )
