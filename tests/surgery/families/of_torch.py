"""PyTorch's own attention, and headtune's."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headtune import HeadedAttention, HeadPlan
from headtune.surgery import Case

E, H = 24, 4


class Encoder(nn.Module):
    """What stands around an attention block: a residual sum."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.attn, self.linear = block, nn.Linear(E, E)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.attn(x, x, x, need_weights=False)[0])


def bare(heads: int) -> nn.Module:
    return nn.MultiheadAttention(E, heads, batch_first=True)


def encoder(heads: int) -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(E, heads, 32, batch_first=True), 2)


def decoder(heads: int) -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(E, heads, 32, batch_first=True), 2)


def transformer(heads: int) -> nn.Module:
    return nn.Transformer(E, heads, 1, 1, 32, batch_first=True)


def headed(heads: int, head_dim: int = E // H) -> nn.Module:
    return Encoder(HeadedAttention(E, heads, head_dim=head_dim, num_kv_heads=heads // 2, batch_first=True))


def cases() -> list[Case]:
    generator = torch.Generator().manual_seed(0)
    x, memory = (torch.randn(2, length, E, generator=generator) for length in (7, 5))
    plain = {
        "nn.MultiheadAttention": (bare, (x, x, x)),
        "nn.TransformerEncoder": (encoder, (x,)),
        "nn.TransformerDecoder": (decoder, (x, memory)),
        "nn.Transformer": (transformer, (memory, x)),
        "headtune.nn.HeadedAttention": (headed, (x,)),
    }
    return [case(name, make, inputs) for name, (make, inputs) in plain.items()]


def case(name: str, make: Callable[..., nn.Module], inputs: tuple[Tensor, ...]) -> Case:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return make(H)

    def rebuild(plan: HeadPlan) -> nn.Module:
        count = plan[plan.paths[0]]
        return headed(count.num_heads, count.head_dim) if make is headed else make(count.num_heads)

    return Case(name=name, build=build, inputs=inputs, rebuild=rebuild)
