"""Which length a latency metric is the latency at, and which profile it is read from."""

import json
from dataclasses import replace

import pytest

from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.timing.lengths import every_length, profile_of, profiles_from_json, profiles_to_json, timed_lengths

LONGEST = LatencyProfile(
    protocol=LatencyProtocol(device="cpu", threads=1, seq_len=32),
    median_ms=4.0,
    p90_ms=5.0,
    interval_ms=(3.9, 4.1),
    ratio=1.1,
    ratio_interval=(1.0, 1.2),
    reference_median_ms=3.7,
    samples=30,
    settled=True,
    contended=False,
    device_name="a CPU",
    versions={},
)
SHORT = replace(LONGEST, protocol=LONGEST.protocol.at(8), median_ms=1.0)


@pytest.mark.parametrize(
    ("metrics", "lengths", "timed"),
    [
        (["acc", "parameters"], None, {}),
        (["acc", "latency_ms"], None, {"latency_ms": None}),
        (["latency_ms"], 8, {"latency_ms": 8}),
        (["latency_ms@8"], 8, {"latency_ms@8": 8}),
        (["latency_ms", "latency_ms@8"], (8, 16, 32), {"latency_ms@8": 8, "latency_ms": 32}),
        (["latency_ms@16", "latency_ms@8"], (8, 16, 32), {"latency_ms@8": 8, "latency_ms@16": 16}),
        (["latency_ms", "latency_ms@32"], (8, 32), {"latency_ms": 32, "latency_ms@32": 32}),
    ],
)
def test_only_what_is_asked_for_is_timed_and_a_bare_latency_is_the_longest(
    metrics: list[str], lengths: int | tuple[int, ...] | None, timed: dict[str, int | None]
) -> None:
    found = timed_lengths(metrics, LatencyProtocol(seq_len=lengths))
    assert list(found.items()) == list(timed.items())


def test_every_length_has_a_metric() -> None:
    assert every_length(LatencyProtocol()) == {"latency_ms": None}
    assert every_length(LatencyProtocol(seq_len=8)) == {"latency_ms": 8}
    assert list(every_length(LatencyProtocol(seq_len=(8, 16, 32))).items()) == [
        ("latency_ms@8", 8),
        ("latency_ms@16", 16),
        ("latency_ms", 32),
    ]


def test_a_metric_is_read_from_the_profile_at_its_length() -> None:
    assert profile_of("latency_ms", LONGEST, {8: SHORT}) is LONGEST
    assert profile_of("latency_ms@32", LONGEST, {8: SHORT}) is LONGEST
    assert profile_of("latency_ms@8", LONGEST, {8: SHORT}) is SHORT
    assert profile_of("latency_ms@8", SHORT, {}) is SHORT
    assert profile_of("latency_ms", None, {}) is None


def test_profiles_by_length_survive_json() -> None:
    assert profiles_from_json(json.loads(json.dumps(profiles_to_json({8: SHORT, 32: LONGEST})))) == {
        8: SHORT,
        32: LONGEST,
    }
