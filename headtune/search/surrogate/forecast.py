"""What is measured before training, foretold of combinations that were not measured yet."""

from collections.abc import Sequence

import numpy as np

from headtune.heads import HeadPlan
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.features import features
from headtune.search.surrogate.gaussian_process import Array, GaussianProcess
from headtune.timing.prediction.estimate import TimedPlan
from headtune.timing.prediction.regression import Regression


def forecast(
    codec: Codec, known: Sequence[tuple[Encoded, float]], present: float | None, every: Sequence[Encoded]
) -> tuple[Array, Array]:
    """A measured metric of M combinations, and the standard deviation of its error, (M,) each.

    The effects of the sites are taken to add up, those of one kind to be alike, as in a latency model; a Gaussian
    process learns what is left, the params' effects among it.

    Args:
        codec: the combinations there are.
        known: what was measured, at least one.
        present: the metric of the present plan, from which effects are counted; without it all is left to the process.
        every: the combinations to foretell.
    """
    values = np.array([value for _, value in known])
    base = np.zeros(len(known) + len(every))
    plans = [codec.decode(code)[0] for code, _ in known]
    others = set(plans) - {HeadPlan.present(codec.sites)}  # without any, no effect of a site was seen
    if present is not None and others and min(present, *values) > 0:
        plans += [codec.decode(code)[0] for code in every]
        ratios = [value / present for value in values.tolist()]
        timed = [
            TimedPlan(plan=plan, ratio=ratio, ratio_interval=(ratio, ratio))
            for plan, ratio in zip(plans, ratios, strict=False)
        ]
        base = present * Regression.fit(codec.sites, timed).ratios(plans)
    points = features([code for code, _ in known], codec.distributions)
    process = GaussianProcess.fit(points, values - base[: len(known)], alike=codec.dimensions)
    left, doubt = process.predict(features(every, codec.distributions))
    return base[len(known) :] + left, np.hypot(doubt, process.noise)
