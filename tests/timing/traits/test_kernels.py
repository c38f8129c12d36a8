"""The kernel of each site, for models whose kernel is known."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from headtune.timing import LatencyProtocol
from headtune.timing.traits import attention_kernels

X = (torch.randn(2, 5, 16),)


class Attention(nn.Module):
    """Two heads of eight, by the given function."""

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.function(q, k, v).transpose(1, 2).flatten(2)


def by_math(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1) @ v


def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhts,bhsd->bhtd", F.softmax(torch.einsum("bhtd,bhsd->bhts", q, k), dim=-1), v)


def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q @ (k.transpose(-2, -1) @ v)


@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        (F.scaled_dot_product_attention, ("flash for the CPU",)),
        (by_math, ("math",)),
        (by_hand, ("written out",)),
        (by_einsum, ("written out",)),
        (linear, ()),
    ],
)
def test_each_site_by_itself(
    function: Callable[[Tensor, Tensor, Tensor], Tensor], kernels: tuple[str, ...], protocol: LatencyProtocol
) -> None:
    model = nn.Sequential(Attention(by_hand), Attention(function), nn.Softmax(-1))
    assert attention_kernels(model, X, protocol, ["0", "1"]) == {"0": ("written out",), "1": kernels}
    assert not any("forward" in vars(module) for module in model.modules())


def test_the_fast_paths_of_pytorch_stay_on(protocol: LatencyProtocol) -> None:
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    paths = ["layers.0.self_attn", "layers.1.self_attn"]
    layers.layers[1].self_attn.batch_first = False  # as the layer's own conditions for the fast path ask
    found = attention_kernels(layers, X, protocol, paths)
    assert found[paths[0]] == ("native encoder layer",)
    assert found[paths[1]] == ("flash for the CPU",)

    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.attention(x, x, x, need_weights=False)[0]
            return made

    assert attention_kernels(Alone(), X, protocol, ["attention"]) == {"attention": ("native multi-head",)}


TABLE: list[Tensor] = []


def test_what_the_model_caches_meanwhile_can_be_trained_with() -> None:
    def cached(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not TABLE:
            TABLE.append(torch.ones(8))
        return F.scaled_dot_product_attention(q * TABLE[0], k, v)

    TABLE.clear()
    model = nn.Sequential(Attention(cached))
    attention_kernels(model, X, LatencyProtocol(device="cpu", threads=1), ["0"])
    model(*X).square().mean().backward()
    assert model.get_parameter("0.qkv.weight").grad is not None
