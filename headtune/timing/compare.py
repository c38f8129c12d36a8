"""Whether two latencies differ, or only their noise; and by how much."""

from dataclasses import asdict

from headtune.errors import InputError
from headtune.timing.profile import LatencyProfile


def differs(a: LatencyProfile, b: LatencyProfile) -> bool:
    """Whether two latencies differ significantly: their 95 % intervals do not overlap.

    Compares the ratios to the reference, which must be the same model for both; without references, the milliseconds.
    Two intervals of 95 % that stay apart are stricter than a test at 5 %: equal latencies are seldom called different.

    Raises:
        InputError: the two were not measured alike.
    """
    low, high = relative(a, b)[1]
    return high < 1 or low > 1


def relative(a: LatencyProfile, b: LatencyProfile) -> tuple[float, tuple[float, float]]:
    """Latency *a* over latency *b*, and its interval; 1 is outside of that where :func:`differs` says so.

    Compares what :func:`differs` compares. The interval goes from the low end of one over the high end of the other to
    the reverse: it holds at 95 % and more, whatever the two measurements have in common.

    Raises:
        InputError: the two were not measured alike.
    """
    problems = _unlike(a, b)
    if problems:
        raise InputError(*problems)
    if a.reference_median_ms is None:
        ratio, ours, theirs = a.median_ms / b.median_ms, a.interval_ms, b.interval_ms
    else:
        ratio, ours, theirs = a.ratio / b.ratio, a.ratio_interval, b.ratio_interval
    return ratio, (ours[0] / theirs[1], ours[1] / theirs[0])


def differs_from_reference(profile: LatencyProfile) -> bool:
    """Whether a model's latency differs significantly from that of the reference it was timed in pairs with.

    The 95 % interval of the ratio does not hold 1; without a reference it never does.
    """
    low, high = profile.ratio_interval
    return high < 1 or low > 1


def _unlike(a: LatencyProfile, b: LatencyProfile) -> list[str]:
    remedy = "measure both alike before comparing them"
    ours, theirs = ({**asdict(profile.protocol), "device_name": profile.device_name} for profile in (a, b))
    problems = [
        f"the {name} of the two latencies is {ours[name]} and {theirs[name]}; {remedy}"
        for name in ours
        if ours[name] != theirs[name]
    ]
    if (a.reference_median_ms is None) != (b.reference_median_ms is None):
        problems.append(f"one of the two latencies has a reference and the other has none; {remedy}")
    return problems
