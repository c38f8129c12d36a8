"""What a plan would take, predicted from a few that were measured."""

from headtune.timing.prediction.block_sum import BlockSum, TimedBlock, sum_blocks
from headtune.timing.prediction.design import informative_plans
from headtune.timing.prediction.estimate import Estimate, HeldOutError, TimedPlan
from headtune.timing.prediction.latency_model import LatencyModel

__all__ = [
    "BlockSum",
    "Estimate",
    "HeldOutError",
    "LatencyModel",
    "TimedBlock",
    "TimedPlan",
    "informative_plans",
    "sum_blocks",
]
