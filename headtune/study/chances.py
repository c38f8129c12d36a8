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

DRAWS = 1000
"""Enough for a standard error of 0.016 at most."""

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
    losses_MP1, errors_MP1, freedoms_MP1 = (
        np.array([[[getattr(seen, name)] for seen in goal] for goal in zip(*plans, strict=True)])
        for name in ("loss", "error", "freedom")
    )
    chance = np.random.default_rng(0)
    noise_MPD = chance.standard_t(np.minimum(freedoms_MP1, 1e9), (*losses_MP1.shape[:2], DRAWS))
    for noise_PD, goal in zip(noise_MPD, zip(*plans, strict=True), strict=True):
        first: dict[Seen, int] = {}
        for plan, seen in enumerate(goal):
            if isinf(seen.freedom):  # what was measured once, of one model with several params, is one value
                noise_PD[plan] = noise_PD[first.setdefault(seen, plan)]
    drawn_MPD = losses_MP1 + errors_MP1 * noise_MPD
    found = []
    for plan in range(len(plans)):
        ours_M1D = drawn_MPD[:, plan : plan + 1]
        dominated_PD = (drawn_MPD <= ours_M1D).all(axis=0) & (drawn_MPD < ours_M1D).any(axis=0)
        found.append(float(1 - dominated_PD.any(axis=0).mean()))
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
