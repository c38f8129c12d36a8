"""Attention modules that PyTorch does not have."""

from headtune.nn.headed_attention import HeadedAttention
from headtune.nn.shared_linear import SharedLinear

__all__ = ["HeadedAttention", "SharedLinear"]
