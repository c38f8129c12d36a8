"""How numbers, plans and metrics are written for a person: units, signs, arrows and plain words."""

import math
from collections.abc import Iterable
from itertools import groupby

from headtune.heads.plan import HeadPlan
from headtune.pareto.objective import Objective
from headtune.trial.params import ParamValue

_NAMES = {"latency_ms": "latency", "parameters": "parameters", "peak_memory_mb": "peak memory"}
_UNITS = {"latency_ms": "ms", "peak_memory_mb": "MB"}
_BASELINES = {
    "present": "present counts",
    "rule": "rule of thumb",
    "rule-mixed": "rule of thumb, mixed",
    "smallest": "all smallest",
    "largest": "all largest",
}
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONGEST_AMOUNT = 9
_MINUS = "\u2212"
_LONGEST_LABEL = 44


def metric_name(metric: str) -> str:
    """The metric in words; a task's own metric keeps its name."""
    base, _, length = metric.partition("@")
    if base not in _NAMES:
        return metric
    return f"{_NAMES[base]} at length {length}" if length else _NAMES[base]


def unit_of(metric: str) -> str:
    """The unit that follows a value; empty for counts and for the task's own metrics."""
    return _UNITS.get(metric.partition("@")[0], "")


def baseline_words(label: str) -> str:
    """A baseline's name in words: ``rule`` is the rule of thumb."""
    return _BASELINES.get(label, label)


def metric_title(metric: str) -> str:
    """The metric in words with its unit: ``latency (ms)``."""
    unit = unit_of(metric)
    return f"{metric_name(metric)} ({unit})" if unit else metric_name(metric)


def better_words(objective: Objective) -> str:
    """Which direction is better: ``higher is better``."""
    return "higher is better" if objective.direction == "maximize" else "lower is better"


def axis_label(objective: Objective) -> str:
    """The label of an axis, its arrow pointing to the better side.

    A vertical axis turns its label by 90° to the left, so that → points up and ← points down.
    """
    title, words = metric_title(objective.metric), better_words(objective)
    return f"{title}   {words} →" if objective.direction == "maximize" else f"←   {title}   {words}"


def number(value: float) -> str:
    """A value with four significant digits, and every digit of a whole number: ``0.9570``, ``12.35``, ``1,204,224``."""
    return _plain(value, f"{value:#.4g}")


def setting(value: ParamValue) -> str:
    """A hyper-parameter as a person would write it: ``0.001``, ``adam``."""
    return _plain(value, f"{value:.4g}") if isinstance(value, float) else str(value)


def quantity(metric: str, value: float) -> str:
    """A value with its unit: ``3.214 ms``."""
    return f"{number(value)} {unit_of(metric)}".rstrip()


def spread(mean: float, deviation: float | None) -> str:
    """A mean with its standard deviation, to two significant digits of the latter: ``0.957 ± 0.013``."""
    if deviation is None or deviation == 0 or not math.isfinite(deviation) or not math.isfinite(mean):
        return number(mean)
    decimals = max(0, 1 - math.floor(math.log10(deviation)))
    return f"{mean:,.{decimals}f} ± {deviation:,.{decimals}f}".replace("-", _MINUS)


def signed(value: float) -> str:
    """A difference with its sign and three significant digits: ``+0.0213``, ``−0.410``, ``0``."""
    if value == 0:
        return "0"
    return ("+" if value > 0 else "") + _plain(value, f"{value:#.3g}")


def percent(ratio: float) -> str:
    """A relative difference: ``−18 %``; one decimal below 10 %."""
    value = 100 * ratio
    text = f"{value:+,.1f}" if abs(value) < 9.95 else f"{value:+,.0f}"
    return ("0" if text in ("+0.0", "-0.0") else text.replace("-", _MINUS)) + " %"


def probability(chance: float | None) -> str:
    """A probability in whole percent, none of them certain: ``93 %``, ``> 99 %``; nothing where it is unknown."""
    if chance is None:
        return ""
    if 0 < chance < 0.01:
        return "< 1 %"
    return "> 99 %" if 0.99 < chance < 1 else f"{chance:.0%}".replace("%", " %")


def _plain(value: float, digits: str) -> str:
    """The *digits* of a value; a whole or large number in full, and words for what is not finite."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else f"{_MINUS}infinite"
    if abs(value) >= 1000 or float(value).is_integer():
        digits = f"{value:,.0f}"
    return digits.replace("-", _MINUS)


def interval(bounds: tuple[float, float]) -> str:
    """A 95 % interval: ``3.1 – 3.3``."""
    return f"{number(bounds[0])} – {number(bounds[1])}"


def count(amount: int, noun: str, plural: str = "") -> str:
    """An amount with its noun: ``1 trial``, ``3 trials``, ``5.04 × 10⁷⁴ legal plans``."""
    return f"{_amount(amount)} {noun if amount == 1 else plural or noun + 's'}"


def _amount(amount: int) -> str:
    digits = str(amount)
    if len(digits) <= _LONGEST_AMOUNT:
        return f"{amount:,}"
    # An amount of plans may be too large for a float.
    return f"{digits[0]}.{digits[1:3]} × 10{str(len(digits) - 1).translate(_RAISED)}"


def listing(parts: Iterable[str]) -> str:
    """Parts joined as in a sentence: ``a, b and c``."""
    words = list(parts)
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def short_plan(plan: HeadPlan) -> str:
    """A plan's counts, short enough for a table: equal neighbours become ``8 (×12)`` where the label is long."""
    if len(plan.label) <= _LONGEST_LABEL:
        return plan.label
    runs = [(key, len(list(group))) for key, group in groupby(plan.label.split("-"))]
    text = ", ".join(key if times == 1 else f"{key} (×{times})" for key, times in runs)
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1].rstrip() + "…"
