"""What an unfinished learning curve says of its end.

A curve at a report is read as a noisy value of its end: by a line from the values at that report to the final ones,
fitted over the trainings that came to their end, with the scatter around that line as the noise. The line is drawn
towards one that few trainings suggest: a correlation of :data:`CORRELATION`, as if seen in :data:`WORTH` more of them.
"""

from dataclasses import dataclass

import numpy as np

from headtune.search.surrogate.gaussian_process import Array, spread

CORRELATION = 0.7

WORTH = 2.0
"""Trainings that the prior counts as."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What curves at a report say of their ends.

    Attributes:
        finals: (N,) the final values that they foretell.
        variances: (N,) of each, around what the training will end with.
    """

    finals: Array
    variances: Array


def read_curves(at_report: Array, finals: Array, open_curves: Array) -> Reading:
    """Read unfinished curves.

    Args:
        at_report: (M,) values of finished trainings at the report.
        finals: (M,) what they ended with; at least one.
        open_curves: (N,) values of unfinished ones at the report.
    """
    x, y = at_report.mean(), finals.mean()
    spread_y = spread(finals) if len(finals) > 1 else 1.0
    spread_x = at_report.std() or spread_y
    together = ((at_report - x) * (finals - y)).sum() + WORTH * CORRELATION * spread_x * spread_y
    alone = ((at_report - x) ** 2).sum() + WORTH * spread_x**2
    slope = together / alone
    left = finals - y - slope * (at_report - x)
    variance = ((left**2).sum() + WORTH * (1 - CORRELATION**2) * spread_y**2) / (len(finals) - 1 + WORTH)
    certainty = 1 + 1 / len(finals) + (open_curves - x) ** 2 / alone
    return Reading(y + slope * (open_curves - x), variance * np.asarray(certainty))
