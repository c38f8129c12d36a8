"""What is optimised."""

from dataclasses import dataclass
from typing import Literal

Direction = Literal["maximize", "minimize"]

MEASURED_METRICS = ("latency_ms", "parameters", "peak_memory_mb")
"""Metrics that headtune measures itself, before any training; every other metric comes from the task."""

_UNITS = {"latency_ms": "ms", "parameters": "weights", "peak_memory_mb": "MB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A metric and the direction in which it is better.

    Attributes:
        metric: a name the task reports (``val_accuracy``) or one of :data:`MEASURED_METRICS`; ``latency_ms@128`` is the
            latency at one of several sequence lengths.
        direction: ``maximize`` or ``minimize``.
    """

    metric: str
    direction: Direction

    @property
    def unit(self) -> str:
        """The unit of a measured metric; empty for the task's own."""
        return _UNITS.get(self.metric.partition("@")[0], "")

    @property
    def measured(self) -> bool:
        """Whether headtune measures the metric itself, before any training."""
        return self.metric.partition("@")[0] in MEASURED_METRICS

    def loss(self, value: float) -> float:
        """The value, turned so that lower is better."""
        return -value if self.direction == "maximize" else value

    def better(self, a: float, b: float) -> bool:
        """Whether *a* is strictly better than *b*."""
        return self.loss(a) < self.loss(b)
