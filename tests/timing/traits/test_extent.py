"""Modules that hold more than attention are told from those that do not."""

import torch
from torch import Tensor, nn

from headtune import sites
from headtune.timing.traits import Extent, attention_extent

X = (torch.randn(3, 5, 16),)


class Block(nn.Module):
    """Attention by hand; with its feed-forward layers in the same module, or without them."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.bias = nn.Parameter(torch.zeros(5, 5))
        self.layers = nn.ModuleList([nn.Linear(16, hidden), nn.Linear(hidden, 16)] if hidden else [])

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / 8**0.5 + self.bias).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_block_with_its_feed_forward_layers_is_more_than_attention() -> None:
    model = nn.Sequential(Block(0), Block(64))
    paths = [site.path for site in sites(model, X)]
    assert paths == ["0", "1"]
    assert attention_extent(model, X, paths) == Extent(outputs=(), more=("1",))


def test_modules_of_attention_alone() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1).eval()
    assert attention_extent(model, X, ["layers.0.self_attn"]) == Extent(outputs=(), more=())


def test_an_output_projection_outside_of_its_site_is_attention_too() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    model = nn.Sequential(Inner(), nn.Linear(16, 16), nn.Linear(16, 16))
    assert [site.path for site in sites(model, X)] == ["0"]
    assert attention_extent(model, X, ["0"]) == Extent(outputs=("1",), more=())
