"""How probably a plan is on the front, given the noise of what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf, sqrt
from statistics import fmean

import numpy as np

from headtune.pareto import Objective
from headtune.pareto.objective import is_latency
from headtune.study.noise import SeedNoise
from headtune.timing import LatencyProfile
from headtune.timing.lengths import profile_of

DRAWS = 2000
"""Enough for a standard error of 0.011 at most."""

_WIDTH = 2 * 1.959964
"""Of a 95 % interval, in standard errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one objective of a plan.

    Attributes:
        loss: the value, turned so that lower is better.
        error: its standard error; 0 for what is exact.
        freedom: degrees of freedom behind the error; ``inf`` for a normal distribution.
    """

    loss: float
    error: float = 0.0
    freedom: float = inf


def front_probabilities(plans: Sequence[Sequence[Seen]]) -> tuple[float, ...]:
    """The probability of each plan that no other one is at least as good in every objective and better in one.

    Monte Carlo over what the true values may be: what was seen, with an error distributed as Student's t, which is
    their posterior under a flat prior (Box and Tiao, 1973). Equal arguments give equal answers.

    Args:
        plans: of each, one value per objective, in the same order.
    """
    if not plans:
        return ()
    losses_PM, errors_PM, freedoms_PM = (
        np.array([[getattr(seen, name) for seen in plan] for plan in plans]) for name in ("loss", "error", "freedom")
    )
    chance = np.random.default_rng(0)
    drawn_DPM = losses_PM + errors_PM * chance.standard_t(np.minimum(freedoms_PM, 1e9), (DRAWS, *losses_PM.shape))
    found = []
    for plan in range(len(plans)):
        ours_D1M = drawn_DPM[:, plan : plan + 1]
        dominated_DP = (drawn_DPM <= ours_D1M).all(axis=2) & (drawn_DPM < ours_D1M).any(axis=2)
        found.append(float(1 - dominated_DP.any(axis=1).mean()))
    return tuple(found)


def trained(goal: Objective, values: Sequence[float], noise: SeedNoise, plan: int) -> Seen:
    """A quality by its mean over seeds; the plan's own spread is that of its index in *noise*."""
    error = float(noise.sds[plan]) / sqrt(len(values))
    return Seen(loss=goal.loss(fmean(values)), error=error, freedom=float(noise.freedoms[plan]))


def timed(goal: Objective, value: float, longest: LatencyProfile | None, shorter: Mapping[int, LatencyProfile]) -> Seen:
    """A metric that headtune measured: a latency as its interval says, all else exact."""
    profile = profile_of(goal.metric, longest, shorter) if is_latency(goal.metric) else None
    if profile is None or profile.ratio == 0 or isinf(value):
        return Seen(loss=value)
    low, high = profile.ratio_interval
    return Seen(loss=value, error=(high - low) / _WIDTH * value / profile.ratio)
