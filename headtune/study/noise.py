"""Telling differences in a metric from the noise of seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy import special

Numbers = npt.NDArray[np.float64]
Row = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedNoise:
    """The spread of one metric over seeds, for each of several plans.

    With few seeds no plan's own spread can be trusted, and with many it should be: each plan's variance is drawn to the
    pooled one, the less so the more seeds it has, and the less so the more the plans' variances scatter beyond what
    equal ones would (empirical Bayes; Smyth, 2004, with the prior's freedom by moments, so that a variance of 0 is no
    harm). Where they scatter no more than that, the pooled one is all there is. Seeds are not paired: all plans train
    on the same ones, but what a seed does to one plan tells little about another.

    Attributes:
        sd: pooled standard deviation over seeds, in the metric's unit; NaN where no plan has two seeds.
        freedom: degrees of freedom behind it; 0 where no plan has two seeds, and then nothing can be told apart.
        sds: each plan's, drawn to the pooled one, shape (plans,).
        freedoms: those behind each plan's, at most all of them, shape (plans,).
        counts: seeds of each plan, shape (plans,).
    """

    sd: float
    freedom: int
    sds: Numbers
    freedoms: Numbers
    counts: Numbers

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "SeedNoise":
        """The noise of *rows*: per plan, one value per seed."""
        scale = max((abs(value) for row in rows for value in row), default=0.0) or 1.0  # squares may overflow
        counts = np.array([len(row) for row in rows], dtype=np.float64)
        own = np.maximum(counts - 1, 0)
        squares = np.array([_squares([value / scale for value in row]) for row in rows])
        freedom = int(own.sum())
        if freedom == 0:
            unknown = np.full(len(rows), math.nan)
            return cls(sd=math.nan, freedom=0, sds=unknown, freedoms=np.zeros(len(rows)), counts=counts)
        pooled = float(squares.sum()) / freedom
        prior = _prior_freedom(squares, own, pooled)
        if math.isinf(prior):
            variances, freedoms = np.full(len(rows), pooled), np.full(len(rows), float(freedom))
        else:
            variances = (pooled * (prior - 2) + squares) / (prior + own)
            freedoms = np.minimum(prior + own, freedom)
        sds = np.sqrt(variances) * scale
        return cls(sd=math.sqrt(pooled) * scale, freedom=freedom, sds=sds, freedoms=freedoms, counts=counts)

    def errors(self, counts: Numbers | None = None) -> Numbers:
        """Standard errors of differences of means over *counts* seeds, by default those seen; shape (plans, plans)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = self.sds / np.sqrt(self.counts if counts is None else counts)
        return np.hypot(errors[:, None], errors[None, :])

    def pair_freedoms(self) -> Numbers:
        """Degrees of freedom of the differences (Welch, 1947; Satterthwaite, 1946), shape (plans, plans)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (self.sds / self.sds.max()) ** 2 / self.counts
            whole = (parts[:, None] + parts[None, :]) ** 2
            freedoms = whole / (parts[:, None] ** 2 / self.freedoms[:, None] + parts[None, :] ** 2 / self.freedoms)
        found: Numbers = np.clip(np.nan_to_num(freedoms, nan=self.freedom), 1, self.freedom)
        return found


def means(rows: Sequence[Row]) -> Numbers:
    """The mean of each row; NaN for an empty one."""
    return np.array([fmean(row) if row else math.nan for row in rows])


def gaps(rows: Sequence[Row]) -> Numbers:
    """How much more the mean of each row is than that of each other, shape (plans, plans)."""
    means_P = means(rows)
    with np.errstate(over="ignore"):
        return means_P[:, None] - means_P[None, :]


def threshold(freedoms: Numbers, level: float) -> Numbers:
    """What Student's t exceeds, to either side, with probability *level* under equal means; of the freedoms' shape."""
    found: Numbers = -special.stdtrit(freedoms, level / 2)  # scipy.stats.t takes a hundred times as long
    return found


def _squares(row: Row) -> float:
    middle = fmean(row) if row else 0.0
    return sum((value - middle) ** 2 for value in row)


def _prior_freedom(squares: Numbers, own: Numbers, pooled: float) -> float:
    """How far a plan's variance is drawn to the pooled one, in degrees of freedom; at least 4, and ``inf`` for wholly.

    Sample variances over their mean scatter by 2 / freedom where the true ones are equal, and by c more, times 1 + 2 /
    freedom, where these scatter by c; true variances that are inversely χ² distributed with d degrees of freedom
    scatter by 2 / (d − 4).
    """
    seen = own > 0
    plans = int(seen.sum())
    if plans < 2 or pooled == 0:
        return math.inf
    ratios = squares[seen] / own[seen] / pooled
    scatter = (ratios - 1) ** 2 * plans / (plans - 1)
    beyond = float((scatter - 2 / own[seen]).sum() / (1 + 2 / own[seen]).sum())
    return 4 + 2 / beyond if beyond > 0 else math.inf
