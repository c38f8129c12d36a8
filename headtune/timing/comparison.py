"""Two latencies beside each other: by how much they differ, and whether that is more than their noise."""

from dataclasses import asdict, dataclass
from math import exp, hypot, log
from statistics import NormalDist

from headtune.errors import InputError
from headtune.timing.profile import LatencyProfile

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One latency over another.

    Attributes:
        ratio: of the first to the second.
        interval: its 95 % interval.
    """

    ratio: float
    interval: tuple[float, float]

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 1, so that the two differ by more than noise."""
        return not self.interval[0] <= 1 <= self.interval[1]

    def __str__(self) -> str:
        low, high = self.interval
        told = f"× {self.ratio:.3f} [{low:.3f}, {high:.3f}]"
        return told if self.significant else f"{told}: no significant difference"


def compare(a: LatencyProfile, b: LatencyProfile) -> Comparison:
    """How much slower *a* is than *b*, with the noise of both.

    Compares the ratios to the reference, which must be the same model for both; without references, the milliseconds.
    The two intervals are taken for those of independent and, in the logarithm, normal errors.

    Raises:
        InputError: the two were not measured alike.
    """
    problems = _unlike(a, b)
    if problems:
        raise InputError(*problems)
    (ours, our_interval), (theirs, their_interval) = map(_compared, (a, b))
    middle = log(ours / theirs)
    error = _Z * hypot(_error(our_interval), _error(their_interval))
    return Comparison(ratio=exp(middle), interval=(exp(middle - error), exp(middle + error)))


def _compared(profile: LatencyProfile) -> tuple[float, tuple[float, float]]:
    if profile.reference_median_ms is None:
        return profile.median_ms, profile.interval_ms
    return profile.ratio, profile.ratio_interval


def _error(interval: tuple[float, float]) -> float:
    """The standard error of a logarithm with this 95 % interval."""
    return log(interval[1] / interval[0]) / (2 * _Z)


def _unlike(a: LatencyProfile, b: LatencyProfile) -> list[str]:
    remedy = "measure both alike before comparing them"
    ours, theirs = ({**asdict(profile.protocol), "device_name": profile.device_name} for profile in (a, b))
    effort = ("min_samples", "max_seconds", "precision")  # how long was measured, not what
    problems = [
        f"the {name} of the two latencies is {ours[name]} and {theirs[name]}; {remedy}"
        for name in ours
        if ours[name] != theirs[name] and name not in effort
    ]
    if (a.reference_median_ms is None) != (b.reference_median_ms is None):
        problems.append(f"one of the two latencies has a reference and the other has none; {remedy}")
    return problems
