"""What the heads of a trained model are worth, and which could stand in for each other."""

from headtune.diagnose.interchangeable import Redundancy, redundancy
from headtune.diagnose.scoring import importance
from headtune.diagnose.weight_norms import norm_importance

__all__ = ["Redundancy", "importance", "norm_importance", "redundancy"]
