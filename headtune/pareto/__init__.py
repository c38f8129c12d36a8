"""Several objectives at once: dominance, the front, its hypervolume and its knee."""

from headtune.pareto.dominance import dominates, non_dominated
from headtune.pareto.front import ParetoFront, ParetoPoint
from headtune.pareto.indicator import hypervolume, reference_point
from headtune.pareto.objective import MEASURED_METRICS, Direction, Objective
from headtune.pareto.tradeoff import knee

__all__ = [
    "MEASURED_METRICS",
    "Direction",
    "Objective",
    "ParetoFront",
    "ParetoPoint",
    "dominates",
    "hypervolume",
    "knee",
    "non_dominated",
    "reference_point",
]
