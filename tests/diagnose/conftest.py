"""Small trained-looking models whose heads' worth is known."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

EMBED, HEADS, SIZE = 16, 4, 4


class Fused(nn.Module):
    """Attention with one projection of queries, keys and values, interleaved by head if asked."""

    def __init__(self, interleaved: bool = False) -> None:
        super().__init__()
        self.interleaved, self.heads = interleaved, HEADS
        self.qkv, self.out = nn.Linear(EMBED, 3 * EMBED), nn.Linear(EMBED, EMBED)

    def forward(self, x: Tensor) -> Tensor:
        if self.interleaved:
            parts = self.qkv(x).view(*x.shape[:2], self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        else:
            parts = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Grouped(nn.Module):
    """Two query heads share a key/value head."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = HEADS, HEADS // 2
        self.q, self.out = nn.Linear(EMBED, EMBED), nn.Linear(EMBED, EMBED)
        self.k, self.v = (nn.Linear(EMBED, EMBED // 2) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for projection, heads in (
                (self.q, self.num_heads),
                (self.k, self.num_kv_heads),
                (self.v, self.num_kv_heads),
            )
        )
        return self.out(F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).flatten(2))


class Stack(nn.Module):
    """Two residual layers of attention."""

    def __init__(self, block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(block() for _ in range(2))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        for layer in self.layers:
            x = x + self.dropout(layer(x))
        return scale * x


def encoder() -> nn.Module:
    """PyTorch's own encoder."""
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 2 * EMBED, dropout=0.5, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "fused": lambda: Stack(Fused),
    "interleaved": lambda: Stack(lambda: Fused(interleaved=True)),
    "grouped": lambda: Stack(Grouped),
    "encoder": encoder,
}

Make = Callable[[str], nn.Module]


@pytest.fixture
def make() -> Make:
    """Makes a float64 model by its name."""

    def build(name: str) -> nn.Module:
        torch.manual_seed(0)
        return MODELS[name]().double()

    return build


@pytest.fixture
def batches() -> list[Tensor]:
    """Three batches."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(3, 5, EMBED, generator=generator, dtype=torch.float64) for _ in range(3)]
