"""What the heads of a trained model are worth, and which could stand in for each other."""

from headtune.diagnose.gate_gradients import importance
from headtune.diagnose.interchangeable import Redundancy, redundancy
from headtune.diagnose.weight_norms import norm_importance

__all__ = ["Redundancy", "importance", "norm_importance", "redundancy"]
