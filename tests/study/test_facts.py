"""The study's findings survive JSON exactly."""

import json
from dataclasses import asdict, replace
from typing import Any

from headtune.heads import AttentionSite, HeadCount, HeadPlan
from headtune.study.facts import (
    finalist_from_json,
    finalist_to_json,
    plans_from_json,
    plans_to_json,
    range_from_json,
    range_to_json,
    sites_from_json,
    sites_to_json,
    verdict_from_json,
)
from headtune.study.record import Finalist, LatencyRange, Verdict
from headtune.timing import LatencyProfile, LatencyProtocol

PLAN = HeadPlan.of({"a": HeadCount(8, 2, 16), "b": HeadCount(1, 1, 128)})
PROFILE = LatencyProfile(
    protocol=LatencyProtocol(device="cpu", threads=2, seq_len=7),
    median_ms=1.5,
    p90_ms=2.0,
    interval_ms=(1.4, 1.6),
    ratio=1.1,
    ratio_interval=(1.0, 1.2),
    reference_median_ms=None,
    samples=31,
    settled=True,
    contended=False,
    device_name="cpu",
    versions={"torch": "2"},
)
FINALIST = Finalist(
    plan=PLAN,
    params={"lr": 0.1, "kind": "a", "deep": True},
    labels=("present",),
    measured={"latency_ms": 1.5},
    latency=PROFILE,
    quality={"acc": (0.1, 0.2)},
    test={},
    tied_with_best=True,
    feasible=False,
)


def through(value: object) -> object:
    return json.loads(json.dumps(value))


def test_sites() -> None:
    sites = (AttentionSite(path="a", role="cross", embed_dim=64, num_heads=8, num_kv_heads=2, head_dim=16),)
    assert sites_from_json(through(sites_to_json(sites))) == sites  # type: ignore[arg-type]


def test_plans() -> None:
    assert plans_from_json(through(plans_to_json({"rule": PLAN}))) == {"rule": PLAN}  # type: ignore[arg-type]


def test_range() -> None:
    found = LatencyRange(plans={"present": PLAN}, profiles={"present": PROFILE}, reference_ms=1.5)
    assert range_from_json(through(range_to_json(found))) == found  # type: ignore[arg-type]
    both = replace(found, shorter={3: found})
    assert range_from_json(through(range_to_json(both))) == both  # type: ignore[arg-type]


def test_what_was_kept_before_several_lengths_were_timed_is_still_read() -> None:
    found = LatencyRange(plans={"present": PLAN}, profiles={"present": PROFILE}, reference_ms=1.5)
    for value, to_json, from_json in (
        (found, range_to_json, range_from_json),
        (FINALIST, finalist_to_json, finalist_from_json),
    ):
        kept: Any = through(to_json(value))  # type: ignore[operator]
        del kept["shorter"]
        assert from_json(kept) == value  # type: ignore[operator]


def test_finalist_with_and_without_latency() -> None:
    timed = replace(FINALIST, shorter={3: PROFILE})
    for finalist in (FINALIST, timed, replace(FINALIST, latency=None)):
        assert finalist_from_json(through(finalist_to_json(finalist))) == finalist  # type: ignore[arg-type]


def test_verdict() -> None:
    verdict = Verdict(recommended=None, rule="none", findings=("a", "b"))
    assert verdict_from_json(through(asdict(verdict))) == verdict  # type: ignore[arg-type]
