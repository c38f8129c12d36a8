"""How numbers and columns are written."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headtune.pareto import Objective

_MOST_NAMED = 3


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


def count(number: int, noun: str) -> str:
    """How many of something: ``1 trial``, ``2,000 trials``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def place(path: Path) -> str:
    """A path as seen from the current folder where it lies in it, else the whole one."""
    try:
        whole, here = path.resolve(), Path.cwd()
    except OSError:  # the current folder is gone
        return str(path)
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)


def interval(bounds: tuple[float, float]) -> str:
    """Its two ends, as :func:`value` writes them."""
    return f"{value(bounds[0])} – {value(bounds[1])}"


def together(problems: Iterable[str]) -> list[str]:
    """The problems, those that many sites share told once: ``layers.0, layers.1, layers.2 and 45 more: …``."""
    sites: dict[str, list[str]] = {}
    for problem in dict.fromkeys(problems):
        site, colon, cause = problem.partition(": ")
        sites.setdefault(cause if colon else problem, []).append(site if colon else "")
    return [problem for cause, names in sites.items() for problem in _told(names, cause)]


def _told(sites: list[str], cause: str) -> list[str]:
    if len(sites) <= _MOST_NAMED + 1:
        return [": ".join(filter(None, (site, cause))) for site in sites]
    return [f"{', '.join(sites[:_MOST_NAMED])} and {len(sites) - _MOST_NAMED} more: {cause}"]
