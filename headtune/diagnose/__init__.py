"""What the heads of a trained model are worth."""

from headtune.diagnose.gate_gradients import importance
from headtune.diagnose.weight_norms import norm_importance

__all__ = ["importance", "norm_importance"]
