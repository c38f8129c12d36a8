"""Telling a difference in quality from the noise of seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from scipy import stats

LEVEL = 0.05
"""Two-sided level at which a difference counts as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedNoise:
    """The spread of one metric over seeds, pooled over plans.

    All plans train on the same seeds, but what a seed does to one plan tells little about another, so seeds are not
    paired. Pooling assumes that the plans' spreads are alike; with three seeds a plan, no plan's own spread could be
    trusted more.

    Attributes:
        sd: pooled standard deviation over seeds, in the metric's unit; ``inf`` beyond the finite numbers.
        freedom: degrees of freedom behind it; 0 where no plan has two seeds, and then nothing can be told apart.
        exact: whether there is none, since nothing is trained: values differ or are equal.
    """

    sd: float
    freedom: int
    exact: bool = False

    @classmethod
    def none(cls) -> "SeedNoise":
        """No noise at all."""
        return cls(sd=0.0, freedom=0, exact=True)

    @classmethod
    def of(cls, values: Sequence[Sequence[float]]) -> "SeedNoise":
        """The noise of *values*: per plan, one value per seed."""
        halves = [value / 2 - mean(row) / 2 for row in values for value in row]  # halved, since they may overflow
        freedom = sum(len(row) - 1 for row in values if row)
        return cls(sd=2 * (math.hypot(*halves) / math.sqrt(freedom)) if freedom else math.nan, freedom=freedom)

    def differ(self, a: Sequence[float], b: Sequence[float]) -> bool:
        """Whether the means of *a* and *b* differ beyond the noise (Student's t, pooled variance, two-sided)."""
        if not a or not b:
            return False
        if self.exact:
            return mean(a) != mean(b)
        if self.freedom == 0:
            return False
        gap = abs(mean(a) - mean(b))
        error = self.sd * math.sqrt(1 / len(a) + 1 / len(b))
        if error == 0:
            return gap > 0
        return bool(gap / error > stats.t.ppf(1 - LEVEL / 2, self.freedom))
