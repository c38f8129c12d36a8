"""A byte-level causal language model on any text file.

Alone:       python examples/text_lm.py [FILE]
In a study:  headtune search studies/text_lm.yaml [--set task_args.path=FILE]

Without a file it reads the language reference that ships with Python.
"""

import math
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headtune
from headtune.errors import TaskError

CONTEXT = 64  # bytes the model sees at once
WIDTH = 64
LAYERS = 2
HEADS = 4
BATCH = 8
STEPS = 150  # of an epoch
LR = 4e-3


class CausalSelfAttention(nn.Module):
    """Each byte attends to itself and to those before it."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        """Return what each byte gathered, (B, T, C)."""
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        gathered = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D)
        y: Tensor = self.proj(gathered.transpose(1, 2).flatten(2))
        return y


class Block(nn.Module):
    """Attention between bytes, then a perceptron on each."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, num_heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        """Return the refined bytes, (B, T, C)."""
        x = x + self.attn(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class ByteLM(nn.Module):
    """Bytes to the logits of the bytes that follow them."""

    def __init__(self, width: int, num_heads: int, layers: int) -> None:
        super().__init__()
        self.byte = nn.Embedding(256, width)
        self.position = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, num_heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256)
        nn.init.normal_(self.head.weight, std=0.02)  # so that at first every byte is about equally likely
        nn.init.zeros_(self.head.bias)

    def forward(self, text: Tensor) -> Tensor:  # (B, T) of 0..255
        """Return logits, (B, T, 256)."""
        x = self.byte(text) + self.position.weight[: text.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


@dataclass(frozen=True)
class Text:
    """One text, cut into three parts that follow each other: 90 %, 5 %, 5 % of its bytes."""

    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, text: bytes) -> "Text":
        """Cut *text*."""
        data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        a, b = len(data) * 90 // 100, len(data) * 95 // 100
        if len(data) - b <= CONTEXT:
            raise TaskError(f"text_lm needs at least {20 * (CONTEXT + 1)} bytes of text, got {len(data)}")
        return cls(data[:a], data[a:b], data[b:])


def read_text(path: str | None) -> bytes:
    """The file's bytes; without a file, the language reference that ships with Python."""
    if path is not None:
        if not Path(path).is_file():
            raise TaskError(f"text_lm: there is no file {path}; give a text by --set task_args.path=FILE")
        return Path(path).read_bytes()
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise TaskError(
            "text_lm: this Python was installed without pydoc_data; give a text by --set task_args.path=FILE"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics)).encode()


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Random bytes to time the model with."""
    return (torch.randint(256, (batch_size, seq_len or CONTEXT)),)


def cross_entropy(model: nn.Module, windows: Tensor) -> Tensor:
    """Mean nats per byte of *windows*, (B, CONTEXT + 1)."""
    logits = model(windows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def train(text: Text, steps: int, lr: float, model: nn.Module, run: headtune.Run) -> None:
    """Train on random windows, *steps* of them an epoch; after each epoch report, and save."""
    data = text.train.to(run.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=run.epochs * steps, pct_start=0.1)
    first = 0
    if (saved := run.restore()) is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        first = saved["epochs"]
    for epoch in range(first, run.epochs):
        model.train()
        for _ in range(steps):
            starts = torch.randint(len(data) - CONTEXT, (BATCH, 1)).to(run.device)
            loss = cross_entropy(model, data[starts + torch.arange(CONTEXT + 1, device=run.device)])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        run.report(val_bits_per_byte=bits_per_byte(text.val, model))
        run.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "epochs": epoch + 1,
            }
        )


@torch.no_grad()
def bits_per_byte(data: Tensor, model: nn.Module) -> float:
    """Mean bits that the model needs for a byte, over windows side by side."""
    model.eval()
    device = next(model.parameters()).device
    windows = data.unfold(0, CONTEXT + 1, CONTEXT).to(device)
    nats = sum(cross_entropy(model, part).item() * len(part) for part in windows.split(128))
    return nats / len(windows) / math.log(2)


def task(
    path: str | None = None,
    width: int = WIDTH,
    layers: int = LAYERS,
    heads: int = HEADS,
    steps: int = STEPS,
    lr: float = LR,
) -> headtune.Task:
    """The language model on the text at *path*."""
    text = Text.of(read_text(path))
    return headtune.Task(
        model=partial(ByteLM, width, heads, layers),
        inputs=inputs,
        train=partial(train, text, steps, lr),
        evaluate=lambda model: {"val_bits_per_byte": bits_per_byte(text.val, model)},
        test=lambda model: {"test_bits_per_byte": bits_per_byte(text.test, model)},
        batches=lambda: text.train.unfold(0, CONTEXT + 1, CONTEXT).split(BATCH),
        loss=cross_entropy,
    )


def main() -> None:
    """Train once."""
    torch.manual_seed(0)
    text = Text.of(read_text(sys.argv[1] if len(sys.argv) > 1 else None))
    run = headtune.Run(epochs=8)
    model = ByteLM(WIDTH, HEADS, LAYERS).to(run.device)
    train(text, STEPS, LR, model, run)
    print(f"test bits per byte: {bits_per_byte(text.test, model):.3f}")


if __name__ == "__main__":
    main()
