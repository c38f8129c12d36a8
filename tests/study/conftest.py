"""Profiles with planted numbers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.study import HeadCost, LatencyRange, Profile, ProfileDetails
from headtune.timing import LatencyProfile, LatencyProtocol
from headtune.timing.prediction import Estimate
from headtune.timing.traits import AttentionShare, LaunchTest
from headtune.trial.profiling import PassTraits

MakeLatency = Callable[..., LatencyProfile]
MakeProfile = Callable[..., Profile]
MakeDetails = Callable[..., ProfileDetails]


def plan_of(heads: int, head_dim: int = 16) -> HeadPlan:
    """Two sites with equal counts."""
    return HeadPlan.of(dict.fromkeys(("layers.0.attn", "layers.1.attn"), HeadCount(heads, heads, head_dim)))


@pytest.fixture
def make_latency() -> MakeLatency:
    """Makes the latency of a plan that takes so many times as long as the present one."""

    def make(ratio: float, half_width: float = 0.02, **protocol: Any) -> LatencyProfile:
        return LatencyProfile(
            protocol=LatencyProtocol(**{"device": "cpu", "threads": 1, **protocol}),
            median_ms=4 * ratio,
            p90_ms=5 * ratio,
            interval_ms=(4 * (ratio - half_width), 4 * (ratio + half_width)),
            ratio=ratio,
            ratio_interval=(ratio - half_width, ratio + half_width),
            reference_median_ms=4.0,
            samples=30,
            settled=True,
            contended=False,
            device_name="a CPU",
            versions={},
        )

    return make


@pytest.fixture
def make_details() -> MakeDetails:
    """Makes details of a pass that is a quarter attention and bound by its work, where a head costs 1 %."""

    def make(**changes: Any) -> ProfileDetails:
        share = AttentionShare(value=0.23, interval=(0.21, 0.25), ordinary=False, settled=True)
        launch = LaunchTest(bound="work", fixed=0.2, fixed_interval=(0.1, 0.3), weights=None, batch_sizes=(32, 16))
        cost = HeadCost(
            name="layers.*.attn",
            paths=("layers.0.attn", "layers.1.attn"),
            counts=(1, 8),
            ratio=Estimate(value=0.01, interval=(0.005, 0.015)),
        )
        names = ("smallest", "present", "largest")
        base = ProfileDetails(
            traits=PassTraits(share=share, blocks=(), launch=launch),
            kernels={name: dict.fromkeys(cost.paths, ("flash",)) for name in names},
            multiples=(8,),
            unaligned={name: {} for name in names},
            costs=(cost,),
            fitted=11,
            error=None,
        )
        return replace(base, **changes)

    return make


@pytest.fixture
def make_profile(make_latency: MakeLatency, make_details: MakeDetails) -> MakeProfile:
    """Makes a profile of three plans; *ratios* by name, *details* of the pass, *lengths* that it is timed at.

    At each length before the last the present plan takes 4 ms less, and the others differ half as much from it.
    """

    def make(
        ratios: Mapping[str, float] | None = None,
        details: ProfileDetails | None = None,
        lengths: tuple[int | None, ...] = (None,),
    ) -> Profile:
        ratios = ratios or {"smallest": 0.8, "present": 1.0, "largest": 1.3}
        plans = {"smallest": plan_of(1), "present": plan_of(4), "largest": plan_of(8)}

        def at(length: int | None, steps: int) -> LatencyRange:
            nearer = {name: 1 + (ratio - 1) / 2**steps for name, ratio in ratios.items()}
            return LatencyRange(
                plans={name: plans[name] for name in ratios},
                profiles={name: make_latency(ratio, seq_len=length) for name, ratio in nearer.items()},
                reference_ms=4.0 * (len(lengths) - steps),
            )

        *shorter, longest = lengths
        steps = range(len(shorter), 0, -1)
        below = {length: at(length, step) for length, step in zip(shorter, steps, strict=True) if length is not None}
        timed = replace(at(longest, 0), shorter=below)
        return Profile(
            measured={
                name: {"parameters": 1000.0, "latency_ms": timed.reference_ms * ratio} for name, ratio in ratios.items()
            },
            latency=timed,
            details=make_details() if details is None else details,
        )

    return make
