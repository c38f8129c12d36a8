"""What is known of a plan before it trains, against numbers counted by hand."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import OtherDeviceError, TaskError
from headtune.heads import HeadCount, HeadDimConstraint, HeadPlan
from headtune.surgery import find_sites
from headtune.timing import LatencyProfile, LatencyProtocol, peak_memory_mb
from headtune.trial import Task, TaskObject, TrialRequest, TrialSetup
from headtune.trial.build import build_planned
from headtune.trial.measuring import Candidate, Profiled, lane_of, measure_trial, profile_candidates, violations

WIDTH, HEADS = 8, 4
WEIGHTS = 4 * WIDTH * WIDTH + 4 * WIDTH
"""Of one attention block: four square projections with their biases."""

PROFILE = LatencyProfile(
    protocol=LatencyProtocol(device="cpu", threads=1),
    median_ms=2.0,
    p90_ms=2.5,
    interval_ms=(1.9, 2.1),
    ratio=1.1,
    ratio_interval=(1.05, 1.25),
    reference_median_ms=1.8,
    samples=30,
    settled=True,
    contended=False,
    device_name="a CPU",
    versions={},
)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.attn(x, x, x, need_weights=False)[0]
        return out


def inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
    return (torch.zeros(batch_size, seq_len or 5, WIDTH),)


def plan(heads: int, head_dim: int = WIDTH // HEADS) -> HeadPlan:
    return HeadPlan.of({"attn": HeadCount(heads, heads, head_dim)})


def setup(**changes: Any) -> TrialSetup:
    task = Task(model=Encoder, inputs=inputs, train=lambda model, run: None)
    base = TrialSetup(
        task=TaskObject(task),
        sites=find_sites(Encoder(), inputs(3, None)),
        hold="head_dim",
        weights="fresh",
        objectives=(),
        latency=LatencyProtocol(device="cpu", threads=1, batch_size=2, max_seconds=0.05),
        needs_memory=False,
        present=plan(HEADS),
    )
    return replace(base, **changes)


def request(chosen: HeadPlan, kind: Any = "search") -> TrialRequest:
    return TrialRequest(
        number=0, kind=kind, label="", plan=chosen, params={}, repeat=0, seed=0, epochs=1, key="0123456789"
    )


def test_latency_is_the_ratio_times_the_reference_or_its_upper_end() -> None:
    seen = Profiled(parameters=10, peak_memory_mb=3.0, latencies={None: PROFILE})
    assert seen.metrics({"latency_ms": 10.0}) == {
        "parameters": 10,
        "peak_memory_mb": 3.0,
        "latency_ms": pytest.approx(11.0),
    }
    assert seen.metrics({"latency_ms": 10.0}, upper=True)["latency_ms"] == pytest.approx(12.5)
    assert seen.metrics({}) == {"parameters": 10, "peak_memory_mb": 3.0}
    assert Profiled(parameters=10).metrics({"latency_ms": 10.0}) == {"parameters": 10}


def test_a_violation_is_the_amount_above_the_limit_and_latency_is_judged_by_its_upper_end() -> None:
    wanted = setup(
        reference_ms={"latency_ms": 10.0},
        limits={"latency_ms": 12.0, "parameters": 15.0, "peak_memory_mb": 1.0},
        head_dim=HeadDimConstraint(min=3),
    )
    seen = Profiled(parameters=10, latencies={None: PROFILE})
    assert violations(wanted, plan(4), seen) == {
        "latency_ms": pytest.approx(0.5),
        "parameters": -5.0,
        "head_dim": 1.0,
    }


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_fewer_heads_of_the_same_size_have_a_share_of_the_weights(heads: int) -> None:
    """Queries, keys, values and the output shrink with the heads; the output's bias stays."""
    (seen,) = profile_candidates(setup(), [Candidate(plan=plan(heads), params={})])
    assert seen.parameters == (WEIGHTS - WIDTH) * heads // HEADS + WIDTH
    assert (seen.peak_memory_mb, seen.latency) == (None, None)


def test_what_the_study_asks_for_is_measured_in_pairs_with_the_present_plan() -> None:
    wanted = setup(timed={"latency_ms": None}, needs_memory=True)
    small, present = profile_candidates(wanted, [Candidate(plan=plan(n), params={}) for n in (1, HEADS)])
    assert small.latency is not None
    assert present.latency is not None
    assert small.latency.ratio > 0
    low, high = present.latency.ratio_interval
    assert low <= present.latency.ratio <= high
    model = build_planned(wanted, wanted.task.load(), plan(1), {}, 0)
    assert small.peak_memory_mb == peak_memory_mb(model, inputs, wanted.latency)
    assert present.peak_memory_mb is not None
    assert small.peak_memory_mb is not None
    assert small.peak_memory_mb < present.peak_memory_mb


LENGTHS = {"latency_ms@3": 3, "latency_ms": 9}


def test_each_length_that_is_asked_for_is_timed_and_judged_by_itself() -> None:
    protocol = LatencyProtocol(device="cpu", threads=1, batch_size=2, max_seconds=0.05, seq_len=(3, 5, 9))
    wanted = setup(timed=LENGTHS, latency=protocol, needs_memory=True)
    (seen,) = profile_candidates(wanted, [Candidate(plan=plan(1), params={})])
    assert {length: one.protocol.seq_len for length, one in seen.latencies.items()} == {3: 3, 9: 9}
    assert seen.latency is seen.latencies[9]
    assert seen.shorter == {3: seen.latencies[3]}
    model = build_planned(wanted, wanted.task.load(), plan(1), {}, 0)
    assert seen.peak_memory_mb == peak_memory_mb(model, inputs, protocol.at(9)), "memory is that of the longest pass"
    short, long = replace(PROFILE, ratio=0.5, ratio_interval=(0.4, 0.6)), PROFILE
    planted = Profiled(parameters=10, latencies={3: short, 9: long})
    known = replace(wanted, reference_ms={"latency_ms@3": 2.0, "latency_ms": 10.0}, limits={"latency_ms@3": 1.0})
    assert planted.metrics(known.reference_ms) == {"parameters": 10, "latency_ms@3": 1.0, "latency_ms": 11.0}
    assert violations(known, plan(1), planted) == {"latency_ms@3": pytest.approx(0.2)}


def test_only_the_length_that_is_in_doubt_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int | None] = []

    def measure(model: object, inputs: object, protocol: LatencyProtocol, **options: object) -> LatencyProfile:
        taken.append(protocol.length)
        wide = taken.count(protocol.length) == 1
        interval = (1.0, 1.9) if wide else (1.0, 1.2)
        return replace(PROFILE, ratio_interval=interval, settled=not wide)

    monkeypatch.setattr("headtune.trial.measuring.measure", measure)
    known = setup(
        timed=LENGTHS,
        latency=LatencyProtocol(device="cpu", threads=1, seq_len=(3, 9)),
        reference_ms={"latency_ms@3": 1.0, "latency_ms": 1.0},
        limits={"latency_ms@3": 1.5, "latency_ms": 2.0},
    )
    model = build_planned(known, known.task.load(), plan(2), {}, 0)
    found = measure_trial(known, known.task.load(), request(plan(2)), model, lane_of(known))
    assert taken == [3, 9, 3]
    assert found.violations == {"latency_ms@3": pytest.approx(-0.3), "latency_ms": pytest.approx(-0.1)}
    assert found.shorter[3].settled


def test_a_ratio_that_another_device_gave_is_refused() -> None:
    wanted = setup(timed={"latency_ms": None}, reference_device="Another CPU")
    with pytest.raises(OtherDeviceError, match=r"but the study's reference on Another CPU: latencies of two devices"):
        profile_candidates(wanted, [Candidate(plan=plan(1), params={})])


def measured(wanted: TrialSetup, chosen: HeadPlan, kind: Any = "search") -> Any:
    model = build_planned(wanted, wanted.task.load(), chosen, {}, 0)
    return measure_trial(wanted, wanted.task.load(), request(chosen, kind), model, lane_of(wanted))


def test_a_searched_plan_that_breaks_a_limit_by_its_weights_is_not_timed_and_a_baseline_is() -> None:
    wanted = setup(timed={"latency_ms": None}, reference_ms={"latency_ms": 1.0}, limits={"parameters": WEIGHTS - 1})
    searched = measured(wanted, plan(HEADS))
    assert searched.latency is None
    assert searched.metrics == {"parameters": WEIGHTS}
    assert searched.violations == {"parameters": 1.0}
    assert measured(wanted, plan(HEADS), "baseline").latency is not None
    assert measured(wanted, plan(1)).latency is not None


def test_inputs_that_fail_at_the_sizes_of_the_protocol_are_told_as_such() -> None:
    def picky(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
        assert batch_size < 100, "too many"
        return inputs(batch_size, seq_len)

    task = Task(model=Encoder, inputs=picky, train=lambda model, run: None)
    wanted = setup(timed={"latency_ms": None}, latency=LatencyProtocol(device="cpu", threads=1, batch_size=100))
    with pytest.raises(TaskError, match=r"^task.inputs raised AssertionError: too many"):
        profile_candidates(replace(wanted, task=TaskObject(task)), [Candidate(plan=plan(2), params={})])


def profiles(*intervals: tuple[float, float, bool]) -> Any:
    """What a measuring would give, one (low, high, settled) after the other; the ratio is 1.1."""
    given = iter(intervals)
    taken: list[int] = []

    def measure(*args: object, **options: object) -> LatencyProfile:
        taken.append(1)
        low, high, settled = next(given)
        return replace(PROFILE, ratio_interval=(low, high), settled=settled)

    return measure, taken


@pytest.mark.parametrize(
    ("intervals", "upper", "times"),
    [
        ([(1.0, 1.2, False)], 1.2, 1),  # meets the limit of 1.5
        ([(1.0, 9.0, False), (1.0, 1.3, True)], 1.3, 2),
        ([(1.0, 9.0, False), (1.0, 1.9, False), (1.0, 2.5, False)], 1.9, 3),
        ([(1.0, 9.0, False), (1.0, 1.9, True)], 1.9, 2),  # settled: it is so
        ([(1.0, 1.6, True)], 1.6, 1),
    ],
)
def test_noise_that_never_settled_does_not_reject_a_plan_at_once(
    monkeypatch: pytest.MonkeyPatch, intervals: list[tuple[float, float, bool]], upper: float, times: int
) -> None:
    measured, taken = profiles(*intervals)
    monkeypatch.setattr("headtune.trial.measuring.measure", measured)
    known = setup(limits={"latency_ms": 3.0}, reference_ms={"latency_ms": 2.0}, timed={"latency_ms": None})
    model = build_planned(known, known.task.load(), plan(2), {}, 0)
    found = measure_trial(known, known.task.load(), request(plan(2)), model, lane_of(known))
    assert found.violations["latency_ms"] == pytest.approx(upper * 2.0 - 3.0)
    assert len(taken) == times
