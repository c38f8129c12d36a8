import random
from collections.abc import Mapping
from dataclasses import replace
from math import exp

import pytest

from headtune.errors import InputError
from headtune.timing import LatencyProfile, LatencyProtocol, compare

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


def test_the_ratio_of_ratios_has_the_noise_of_both() -> None:
    # Two standard errors of 0.03 and 0.04 in the logarithm make one of 0.05.
    def around(ratio: float, error: float) -> LatencyProfile:
        half = exp(1.959964 * error)
        return replace(profile((ratio / half, ratio * half)), ratio=ratio)

    found = compare(around(1.2, 0.03), around(1.0, 0.04))
    assert found.ratio == pytest.approx(1.2)
    assert found.interval == pytest.approx((1.2 / exp(1.959964 * 0.05), 1.2 * exp(1.959964 * 0.05)))
    back = compare(around(1.0, 0.04), around(1.2, 0.03))
    assert back.ratio == pytest.approx(1 / 1.2)
    assert back.interval == pytest.approx((1 / found.interval[1], 1 / found.interval[0]))


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ((1.0, 1.2), False),  # the same
        ((1.1, 1.3), False),  # overlapping
        ((0.5, 2.0), False),  # one within the other
        ((1.21, 1.45), True),
        ((0.8, 0.95), True),
    ],
)
def test_significant_where_the_interval_leaves_out_one(theirs: tuple[float, float], expected: bool) -> None:
    ours, other = profile((1.0, 1.2)), profile(theirs)
    assert compare(ours, other).significant is expected
    assert compare(other, ours).significant is expected
    assert ("no significant difference" in str(compare(ours, other))) is not expected


def test_without_references_the_milliseconds_decide() -> None:
    slow, fast = profile((1.0, 1.0), (4.0, 5.0)), profile((1.0, 1.0), (2.0, 3.0))
    assert not compare(slow, fast).significant
    slow, fast = (replace(one, reference_median_ms=None) for one in (slow, replace(fast, median_ms=2.5)))
    assert compare(slow, fast).ratio == 2
    assert compare(slow, fast).significant


def test_equal_latencies_are_seldom_called_different() -> None:
    # Two measurements of one ratio, each with the standard error that its interval says: 5 % of 1000 pairs differ, and
    # four standard errors of that are 2.8 %.
    generator = random.Random(0)

    def measured() -> LatencyProfile:
        middle, half = exp(generator.gauss(0, 0.02)), exp(1.959964 * 0.02)
        return replace(profile((middle / half, middle * half)), ratio=middle)

    differing = sum(compare(measured(), measured()).significant for _ in range(1000))
    assert 22 <= differing <= 78


def test_how_long_was_measured_does_not_matter() -> None:
    ours = profile((1.0, 1.2))
    theirs = replace(ours, protocol=replace(ours.protocol, max_seconds=9.0, min_samples=99, precision=0.5))
    assert not compare(ours, theirs).significant


def test_what_was_measured_otherwise_is_not_compared() -> None:
    ours = profile((1.0, 1.2))
    theirs = replace(
        ours,
        protocol=replace(ours.protocol, threads=2, dtype="float16"),
        device_name="there",
        reference_median_ms=None,
    )
    with pytest.raises(InputError) as caught:
        compare(ours, theirs)
    assert caught.value.problems == (
        "the threads of the two latencies is 1 and 2; measure both alike before comparing them",
        "the dtype of the two latencies is float32 and float16; measure both alike before comparing them",
        "the device_name of the two latencies is here and there; measure both alike before comparing them",
        "one of the two latencies has a reference and the other has none; measure both alike before comparing them",
    )
