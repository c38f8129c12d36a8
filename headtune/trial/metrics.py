"""From what a person's functions report to metrics: names with one number each."""

import numbers
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch

from headtune.errors import MetricError
from headtune.pareto import MEASURED_METRICS

_EXAMPLE = '{"val_accuracy": 0.91}'


def reported_metrics(metrics: Mapping[str, object], source: str = "run.report") -> dict[str, float]:
    """The metrics given to ``run.report``, or to *source*, as Python floats.

    Raises:
        MetricError: every one that is not a number or has a name of headtune's own; or there is none.
    """
    if not metrics:
        raise MetricError(f"{source}() was given no metric; name one, such as val_accuracy=…")
    return _floats(source, metrics)


def returned_metrics(function: Literal["evaluate", "test"], returned: object) -> dict[str, float]:
    """The metrics that a task's *function* returned, as Python floats.

    Raises:
        MetricError: it returned no mapping; else every entry that is no name with a number, or has a name of
            headtune's own.
    """
    if not isinstance(returned, Mapping):
        raise MetricError(
            f"Task.{function} must return a mapping of metric names to numbers, such as {_EXAMPLE}; "
            f"it returned {_kind(returned)}"
        )
    return _floats(f"Task.{function}", returned)


def told_metrics(told: object) -> dict[str, float]:
    """The metrics given to ``Study.tell``, as Python floats.

    Raises:
        MetricError: as for :func:`returned_metrics`.
    """
    if not isinstance(told, Mapping):
        raise MetricError(f"Study.tell takes metric names with numbers, such as {_EXAMPLE}, got {_kind(told)}")
    return _floats("Study.tell", told)


def _floats(source: str, metrics: Mapping[str, object]) -> dict[str, float]:
    values = {name: _as_float(value) for name, value in metrics.items()}
    problems = [problem for name, value in values.items() if (problem := _problem(name, metrics[name], value))]
    if problems:
        raise MetricError(*(f"{source}: {problem}" for problem in problems))
    return {name: value for name, value in values.items() if value is not None}


def _problem(name: object, came: object, value: float | None) -> str:
    """What is wrong with one metric; empty where nothing is."""
    if not isinstance(name, str) or not name or not name.isprintable():
        return f"a metric is named by a text that can be printed, got {_kind(name)}"
    if name.partition("@")[0] in MEASURED_METRICS:
        return f"headtune measures {name} itself; report it under another name, such as my_{name.partition('@')[0]}"
    if value is None:
        return f"{name} must be a number or a 0-d tensor, got {_kind(came)}"
    return ""


def _as_float(value: object) -> float | None:
    """The value as a float; ``None`` for what is not one real number."""
    if isinstance(value, np.bool_) or (isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 0):
        value = value.item()
    try:
        return float(value) if isinstance(value, numbers.Real) else None
    except OverflowError:
        return None  # an int beyond the floats


def _kind(value: object) -> str:
    """What *value* is, for a message."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"a {type(value).__name__} of shape {tuple(value.shape)} and type {value.dtype}"
    if isinstance(value, str | bytes | float | complex) or (isinstance(value, int) and value.bit_length() <= 64):
        text = repr(value)
        return f"{text if len(text) <= 40 else f'{text[:40]}…'} ({type(value).__name__})"
    return f"an object of type {type(value).__name__}"
