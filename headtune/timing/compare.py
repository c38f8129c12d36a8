"""Whether two latencies differ, or only their noise."""

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
    problems = _unlike(a, b)
    if problems:
        raise InputError(*problems)
    ours, theirs = (
        (a.interval_ms, b.interval_ms) if a.reference_median_ms is None else (a.ratio_interval, b.ratio_interval)
    )
    return ours[1] < theirs[0] or theirs[1] < ours[0]


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
