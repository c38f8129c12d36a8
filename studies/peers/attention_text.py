"""The language model of ``examples/text_lm.py`` without its perceptrons: a task on which heads matter.

With perceptrons a short training learns little more than which byte follows which, and plans differ by less than seeds.
An attention-only transformer (Elhage et al., A mathematical framework for transformer circuits, 2021) has nothing else.
"""

from dataclasses import replace

import text_lm
from torch import Tensor, nn

import headtune

WIDTH = 32
LAYERS = 3
HEADS = 8
STEPS = 70  # of an epoch


class AttentionBlock(nn.Module):
    """Attention between bytes, and nothing on each."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attn = text_lm.CausalSelfAttention(WIDTH, HEADS)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        """Return the refined bytes, (B, T, C)."""
        y: Tensor = x + self.attn(self.norm(x))
        return y


def model() -> nn.Module:
    """Bytes to the logits of the bytes that follow them."""
    made = text_lm.ByteLM(WIDTH, HEADS, layers=0)
    made.blocks.extend(AttentionBlock() for _ in range(LAYERS))
    return made


def task(lr: float) -> headtune.Task:
    """The language model on the language reference that ships with Python."""
    return replace(text_lm.task(steps=STEPS, lr=lr), model=model)
