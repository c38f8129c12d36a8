"""The sequence lengths that a study times: which one a latency metric names, and which profile it is read from."""

from collections.abc import Iterable, Mapping

from headtune.pareto.objective import LATENCY, is_latency, length_of
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol


def timed_lengths(metrics: Iterable[str], protocol: LatencyProtocol) -> dict[str, int | None]:
    """Each latency metric among *metrics* with the sequence length that it is the latency at, ascending.

    A bare ``latency_ms`` is the latency at the longest one.
    """
    named = {metric: length_of(metric) or protocol.lengths[-1] for metric in metrics if is_latency(metric)}
    return dict(sorted(named.items(), key=lambda item: item[1] or 0))


def every_length(protocol: LatencyProtocol) -> dict[str, int | None]:
    """A latency metric for each of the protocol's sequence lengths, ascending; the longest one's is bare."""
    *shorter, longest = protocol.lengths
    return {f"{LATENCY}@{length}": length for length in shorter} | {LATENCY: longest}


def profile_of(
    metric: str, longest: LatencyProfile | None, shorter: Mapping[int, LatencyProfile]
) -> LatencyProfile | None:
    """The profile that a latency metric is read from.

    Args:
        metric: such as ``latency_ms@128``.
        longest: the profile at the longest of the lengths that were timed; ``None`` where nothing was.
        shorter: those at the other lengths.
    """
    length = length_of(metric)
    return longest if length is None else shorter.get(length, longest)


def profiles_to_json(shorter: Mapping[int, LatencyProfile]) -> dict[str, object]:
    """Profiles by sequence length as JSON keeps them, where every key is text."""
    return {str(length): profile.to_json() for length, profile in shorter.items()}


def profiles_from_json(data: Mapping[str, Mapping[str, object]]) -> dict[int, LatencyProfile]:
    """The inverse of :func:`profiles_to_json`."""
    return {int(length): LatencyProfile.from_json(profile) for length, profile in data.items()}
