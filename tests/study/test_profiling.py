"""What is achievable, and what a budget makes of it."""

from collections.abc import Callable

import pytest

from headtune.errors import Infeasible
from headtune.execute import InlineExecutor
from headtune.heads import HeadCount, HeadPlan, Limit
from headtune.study import LatencyRange, Profile, StudySpec, check, profile
from headtune.study.profiling import resolve_limits
from headtune.timing import LatencyProfile, LatencyProtocol

MakeSpec = Callable[..., StudySpec]

PLAN = HeadPlan.of({"a": HeadCount(1, 1, 16)})


def timed(ratio: float, half_width: float) -> LatencyProfile:
    return LatencyProfile(
        protocol=LatencyProtocol(device="cpu", threads=1),
        median_ms=ratio,
        p90_ms=ratio,
        interval_ms=(ratio, ratio),
        ratio=ratio,
        ratio_interval=(ratio - half_width, ratio + half_width),
        reference_median_ms=1.0,
        samples=30,
        settled=True,
        contended=False,
        device_name="test",
        versions={},
    )


def seen(half_width: float = 0.05) -> Profile:
    profiles = {"smallest": timed(0.8, half_width), "rule": timed(0.9, half_width), "present": timed(1.0, half_width)}
    return Profile(
        measured={name: {"parameters": 100, "latency_ms": 4.0 * one.ratio} for name, one in profiles.items()},
        latency=LatencyRange(plans=dict.fromkeys(profiles, PLAN), profiles=profiles, reference_ms=4.0),
    )


def test_ratios_become_milliseconds_of_the_named_reference() -> None:
    assert resolve_limits((Limit(metric="latency_ms", max_ratio=1.5, of="present"),), seen()) == {"latency_ms": 6.0}
    assert resolve_limits((Limit(metric="latency_ms", max_ratio=1.5, of="rule"),), seen()) == {
        "latency_ms": pytest.approx(5.4)
    }


def test_a_limit_that_noise_may_still_meet_is_not_refused() -> None:
    limit = Limit(metric="latency_ms", max=3.1)  # the smallest plan reads 3.2 ms, its interval 3.0 to 3.4
    assert resolve_limits((limit,), seen()) == {"latency_ms": 3.1}


def test_every_limit_that_nothing_meets_is_named_with_what_is_achievable() -> None:
    limits = (Limit(metric="latency_ms", max=2.0), Limit(metric="parameters", max=50))
    with pytest.raises(Infeasible) as caught:
        resolve_limits(limits, seen())
    assert caught.value.problems == (
        "no plan can meet latency_ms ≤ 2 ms (at most 2): achievable is 3.2 (smallest) to 4 (present); "
        "raise the limit, or make the model smaller in other ways",
        "no plan can meet parameters ≤ 50 weights (at most 50): achievable is 100 (smallest) to 100 (smallest); "
        "raise the limit, or make the model smaller in other ways",
    )


def test_the_four_corner_plans_are_measured_against_the_present_one(make_spec: MakeSpec) -> None:
    spec: StudySpec = make_spec(latency=LatencyProtocol(batch_size=2, max_seconds=0.1))
    found = profile(spec, check(spec), InlineExecutor(), latency=True)
    assert set(found.measured) == {"smallest", "rule", "present", "largest"}
    assert found.latency is not None
    assert found.latency.reference_ms == found.latency.profiles["present"].median_ms
    for name, metrics in found.measured.items():
        assert metrics["parameters"] == 4465
        ratio = 1 if name == "present" else found.latency.profiles[name].ratio  # to itself it is 1, whatever the noise
        assert metrics["latency_ms"] == ratio * found.latency.reference_ms


def test_without_a_need_nothing_is_timed(make_spec: MakeSpec) -> None:
    spec = make_spec()
    assert profile(spec, check(spec), InlineExecutor()).latency is None
