"""What a plan would take, predicted from a few that were measured."""

from headtune.timing.prediction.design import informative_plans
from headtune.timing.prediction.estimate import Estimate, HeldOutError, TimedPlan
from headtune.timing.prediction.latency_model import LatencyModel

__all__ = ["Estimate", "HeldOutError", "LatencyModel", "TimedPlan", "informative_plans"]
