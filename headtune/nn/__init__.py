"""Attention modules that PyTorch does not have, and terms of a loss: penalties of alike heads, distillation."""

from headtune.nn.distillation import attention_map_loss, hidden_state_loss, relation_loss, soft_target_loss
from headtune.nn.diversity import map_agreement, output_agreement, projection_overlap, score_norm
from headtune.nn.headed_attention import HeadedAttention
from headtune.nn.shared_linear import SharedLinear

__all__ = [
    "HeadedAttention",
    "SharedLinear",
    "attention_map_loss",
    "hidden_state_loss",
    "map_agreement",
    "output_agreement",
    "projection_overlap",
    "relation_loss",
    "score_norm",
    "soft_target_loss",
]
