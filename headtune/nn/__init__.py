"""Attention modules that PyTorch does not have."""

from headtune.nn.headed_attention import HeadedAttention

__all__ = ["HeadedAttention"]
