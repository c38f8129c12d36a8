from collections.abc import Mapping
from dataclasses import replace

import pytest

from headtune.errors import InputError
from headtune.timing import LatencyProfile, LatencyProtocol, differs

VERSIONS: Mapping[str, str] = {}


def profile(ratio_interval: tuple[float, float], interval_ms: tuple[float, float] = (1.0, 9.0)) -> LatencyProfile:
    return LatencyProfile(
        protocol=LatencyProtocol(device="cpu", threads=1),
        median_ms=5.0,
        p90_ms=9.0,
        interval_ms=interval_ms,
        ratio=sum(ratio_interval) / 2,
        ratio_interval=ratio_interval,
        reference_median_ms=4.0,
        samples=30,
        settled=True,
        contended=False,
        device_name="here",
        versions=VERSIONS,
    )


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((1.0, 1.2), False),  # the same
        ((1.1, 1.3), False),  # overlapping
        ((0.5, 2.0), False),  # one within the other
        ((1.2, 1.3), False),  # touching
        ((1.21, 1.3), True),
        ((0.8, 0.99), True),
    ],
)
def test_differs_where_the_ratios_intervals_stay_apart(theirs: tuple[float, float], expected: bool) -> None:
    ours, other = profile((1.0, 1.2)), profile(theirs)
    assert differs(ours, other) is expected
    assert differs(other, ours) is expected


def test_without_references_the_milliseconds_decide() -> None:
    slow, fast = profile((1.0, 1.0), (4.0, 5.0)), profile((1.0, 1.0), (2.0, 3.0))
    assert not differs(slow, fast)
    assert differs(replace(slow, reference_median_ms=None), replace(fast, reference_median_ms=None))


def test_what_was_measured_otherwise_is_not_compared() -> None:
    ours = profile((1.0, 1.2))
    theirs = replace(
        ours,
        protocol=replace(ours.protocol, threads=2, dtype="float16"),
        device_name="there",
        reference_median_ms=None,
    )
    with pytest.raises(InputError) as caught:
        differs(ours, theirs)
    assert caught.value.problems == (
        "the threads of the two latencies is 1 and 2; measure both alike before comparing them",
        "the dtype of the two latencies is float32 and float16; measure both alike before comparing them",
        "the device_name of the two latencies is here and there; measure both alike before comparing them",
        "one of the two latencies has a reference and the other has none; measure both alike before comparing them",
    )
