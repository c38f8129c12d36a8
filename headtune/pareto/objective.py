"""What is optimised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import InputError

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
        direction: ``maximize`` or ``minimize``; of what is measured, less is better.

    Raises:
        InputError: the metric is no name, or the direction is not one for it.
    """

    metric: str
    direction: Direction

    def __post_init__(self) -> None:
        problems = rules.broken(
            {
                "metric": (self.metric, rules.text),
                "direction": (self.direction, rules.one_of(get_args(Direction))),
            }
        )
        if not problems and self.measured and self.direction == "maximize":
            problems = [f"direction: must be minimize: of {self.metric}, less is better"]
        if problems:
            raise InputError(*problems)

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


def reportable(metric: object) -> str:
    """The rule of a metric that a study can have."""
    name, at, _ = metric.partition("@") if isinstance(metric, str) else ("", "", "")
    if at and name in MEASURED_METRICS:
        return f"{metric}: several sequence lengths are not available yet; write {name}"
    if not isinstance(metric, str) or not metric.isidentifier():
        return "must be a name as in Python code, as run.report(name=...) takes it"
    return ""


def distinct(metrics: Sequence[str]) -> list[rules.Told]:
    """What is wrong with the metrics of a study's objectives as a whole."""
    problems: list[rules.Told] = [
        ((index, "metric"), f"{metric} is an objective already; keep one")
        for index, metric in enumerate(metrics)
        if metric in metrics[:index]
    ]
    if all(metric.partition("@")[0] in MEASURED_METRICS for metric in metrics):
        problems.append(((), "must name at least one metric that the task reports, beside what headtune measures"))
    return problems
