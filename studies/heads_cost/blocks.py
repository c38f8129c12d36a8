"""The blocks that are timed. B batch, T positions, H heads, D features of a head, E features of the block."""

from collections.abc import Callable

import torch
from cells import OURS, Attention, Cell
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.timing import LatencyProtocol, measure


class Block(nn.Module):
    """Self-attention without anything around it."""

    def __init__(self, width: int, heads: int, attention: Attention) -> None:
        super().__init__()
        self.heads = heads
        self.attend: Callable[[Tensor, Tensor, Tensor], Tensor] = (
            written_out if attention == "written out" else F.scaled_dot_product_attention
        )
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x_BTE: Tensor) -> Tensor:
        """Shape ``(B, T, E)``, like what comes in."""
        q, k, v = (
            read(x_BTE).unflatten(-1, (self.heads, -1)).transpose(1, 2) for read in (self.query, self.key, self.value)
        )
        attended_BHTD = self.attend(q, k, v)
        mixed: Tensor = self.out(attended_BHTD.transpose(1, 2).flatten(2))
        return mixed


def written_out(q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √D) V by two matrix products (Vaswani et al., Attention Is All You Need, 2017)."""
    scores_BHTT = q_BHTD @ k_BHTD.transpose(-2, -1) * q_BHTD.shape[-1] ** -0.5
    attended_BHTD: Tensor = scores_BHTT.softmax(dim=-1) @ v_BHTD
    return attended_BHTD


def make_block(width: int, heads: int, attention: Attention) -> Block:
    """A block whose weights do not depend on its heads."""
    torch.manual_seed(0)
    return Block(width, heads, attention)


def timed(protocol: LatencyProtocol, width: int, heads: int, attention: Attention) -> Cell:
    """Time a block beside one of one head, as the protocol says."""
    inputs = (torch.randn(protocol.batch_size, protocol.length or 1, width),)
    profile = measure(make_block(width, heads, attention), inputs, protocol, reference=make_block(width, 1, attention))
    assert profile.reference_median_ms is not None
    return Cell(
        source=OURS,
        attention=attention,
        mode="train_step" if protocol.mode == "train_step" else "forward",
        seq_len=protocol.length or 1,
        heads=heads,
        head_dim=width // heads,
        batch_size=protocol.batch_size,
        dtype=protocol.dtype,
        threads=profile.protocol.threads if profile.protocol.device == "cpu" else None,
        device_name=profile.device_name,
        median_ms=profile.median_ms,
        one_head_ms=profile.reference_median_ms,
        overhead_percent=100 * (profile.ratio - 1),
        low_percent=100 * (profile.interval[0] - 1),
        high_percent=100 * (profile.interval[1] - 1),
        pairs=profile.samples,
        settled=profile.settled,
        doubts="; ".join(profile.doubts),
    )
