"""How numbers and columns are written."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headtune.pareto import Objective


def value(number: float) -> str:
    """A number with four significant digits; a large one in full."""
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:.4g}"


def duration(seconds: float) -> str:
    """A time to the two largest units: ``2 h 5 min``, ``3 min``, ``40 s``."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def objective_title(objective: "Objective") -> str:
    """A column's title: the metric, with an arrow to its better side."""
    return f"{objective.metric} {'↑' if objective.direction == 'maximize' else '↓'}"
