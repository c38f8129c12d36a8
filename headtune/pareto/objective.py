"""What is optimised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import InputError

Direction = Literal["maximize", "minimize"]

MEASURED_METRICS = ("latency_ms", "parameters", "peak_memory_mb")
"""Metrics that headtune measures itself, before any training; every other metric comes from the task."""

LATENCY = "latency_ms"
"""The latency at the longest of the study's sequence lengths; ``latency_ms@128`` is that at another."""

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
        return is_measured(self.metric)

    def loss(self, value: float) -> float:
        """The value, turned so that lower is better."""
        return -value if self.direction == "maximize" else value

    def better(self, a: float, b: float) -> bool:
        """Whether *a* is strictly better than *b*."""
        return self.loss(a) < self.loss(b)


def is_measured(metric: str) -> bool:
    """Whether headtune measures the metric itself; every other metric comes from the task."""
    return metric.partition("@")[0] in MEASURED_METRICS


def counted(metrics: Sequence[str]) -> tuple[int, int]:
    """How many of the metrics the task reports, and how many are measured."""
    measured = sum(map(is_measured, metrics))
    return len(metrics) - measured, measured


def is_latency(metric: str) -> bool:
    """Whether the metric is a latency, at whatever sequence length."""
    return metric.partition("@")[0] == LATENCY


def length_of(metric: str) -> int | None:
    """The sequence length that a metric such as ``latency_ms@128`` names; ``None`` where it names none."""
    length = metric.partition("@")[2]
    return int(length) if length.isdecimal() else None


def reportable(metric: object) -> str:
    """The rule of a metric that a study can have."""
    name, at, length = metric.partition("@") if isinstance(metric, str) else ("", "", "")
    if at and name in MEASURED_METRICS:
        if name != LATENCY:
            return f"{name} does not depend on the sequence length; write {name}"
        return "" if rules.decimal(length) else f"must name a sequence length as in {LATENCY}@128"
    if not isinstance(metric, str) or not metric.isidentifier():
        return "must be a name as in Python code, as run.report(name=...) takes it"
    return ""


def limitable(metric: object) -> str:
    """The rule of a metric that can be limited before any training."""
    known = isinstance(metric, str) and is_measured(metric)
    return reportable(metric) if known else rules.one_of(MEASURED_METRICS)(metric)


def distinct(metrics: Sequence[str]) -> list[rules.Told]:
    """What is wrong with the metrics of a study's objectives as a whole."""
    problems: list[rules.Told] = [
        ((index, "metric"), f"{metric} is an objective already; keep one")
        for index, metric in enumerate(metrics)
        if metric in metrics[:index]
    ]
    if all(map(is_measured, metrics)):
        problems.append(((), "must name at least one metric that the task reports, beside what headtune measures"))
    return problems


def named_lengths(goals: Sequence[str], limits: Sequence[str], lengths: Sequence[int | None]) -> list[str]:
    """What is wrong with a protocol's sequence lengths where metrics such as ``latency_ms@128`` name some of them.

    Args:
        goals: metrics of the objectives.
        limits: metrics that are limited.
        lengths: those of the protocol, ascending; one ``None`` where it names none.
    """
    sound = [metric for metric in (*goals, *limits) if is_latency(metric) and not reportable(metric)]
    asked = {metric: length_of(metric) for metric in sound}
    listed = ", ".join(map(str, lengths)) if lengths[-1] is not None else "none"
    problems = [
        f"must list {length}, the length that {metric} names (got {listed})"
        for metric, length in asked.items()
        if length not in (None, *lengths)
    ]
    twins = [goal for goal in dict.fromkeys(goals) if goal in asked and asked[goal] in (None, lengths[-1])]
    if len(twins) > 1:
        problems.append(f"makes {' and '.join(twins)} one objective, since {lengths[-1]} is the longest; keep one")
    return problems
