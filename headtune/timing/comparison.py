"""Two latencies beside each other: by how much they differ, and whether that is more than their noise."""

from dataclasses import asdict, dataclass
from math import exp, hypot, log
from statistics import NormalDist

import headtune.rules as rules
from headtune.errors import InputError
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol

_Z = NormalDist().inv_cdf(0.975)
_EFFORT = ("min_samples", "max_seconds", "precision")
"""How long was measured, not what."""

_REMEDY = "measure both alike before comparing them"


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

    Raises:
        InputError: an argument that is no profile, or the two were not measured alike.
    """
    expected = rules.a(LatencyProfile, "a LatencyProfile")
    problems = [f"compare: {problem}" for problem in rules.broken({"a": (a, expected), "b": (b, expected)})]
    if not problems:
        problems = unlike((a.protocol, a.device_name), (b.protocol, b.device_name))
        if (a.reference_median_ms is None) != (b.reference_median_ms is None):
            problems.append(f"one of the two latencies has a reference and the other has none; {_REMEDY}")
    if problems:
        raise InputError(*problems)
    return over(_compared(a), _compared(b))


Measured = tuple[float, tuple[float, float]]
"""A number above 0 and its 95 % interval."""


def over(ours: Measured, theirs: Measured) -> Comparison:
    """The first over the second; their intervals are taken for those of independent errors, normal in the logarithm."""
    middle = log(ours[0] / theirs[0])
    error = _Z * hypot(_error(ours[1]), _error(theirs[1]))
    return Comparison(ratio=exp(middle), interval=(exp(middle - error), exp(middle + error)))


def unlike(ours: tuple[LatencyProtocol, str], theirs: tuple[LatencyProtocol, str]) -> list[str]:
    """What keeps two latencies from being compared, from their protocols and the names of their devices."""
    a, b = ({**asdict(protocol), "device_name": device_name} for protocol, device_name in (ours, theirs))
    return [
        f"the {name} of the two latencies is {a[name]} and {b[name]}; {_REMEDY}"
        for name in a
        if a[name] != b[name] and name not in _EFFORT
    ]


def _compared(profile: LatencyProfile) -> Measured:
    if profile.reference_median_ms is None:
        return profile.median_ms, profile.interval_ms
    return profile.ratio, profile.ratio_interval


def _error(interval: tuple[float, float]) -> float:
    """The standard error of a logarithm with this 95 % interval."""
    return log(interval[1] / interval[0]) / (2 * _Z)
