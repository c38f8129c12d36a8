"""What a worker tells of a model, on one whose pass is known."""

from dataclasses import replace
from typing import Protocol

import pytest
import torch
from torch import nn

from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import find_sites
from headtune.timing import LatencyProtocol
from headtune.trial import Task, TaskObject, TrialSetup
from headtune.trial.measuring import Candidate
from headtune.trial.profiling import examine, kernels_of, long_variants_of, profile_briefly


class Clock(Protocol):
    """What time is planted in."""

    def take(self, ms: float) -> None:
        """Let time pass."""


class Slow(nn.Module):
    """Attention, and half a millisecond of something else for each example."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 4, batch_first=True)
        self.take = clock.take

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, 8) → (B, T, 8)."""
        out: torch.Tensor = self.attn(x, x, x, need_weights=False)[0]
        self.take(0.5 * x.shape[0])
        return out


def inputs(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
    return (torch.zeros(batch_size, 5, 8),)


def plan(heads: int) -> HeadPlan:
    return HeadPlan.of({"attn": HeadCount(heads, heads, 8 // heads)})


@pytest.fixture
def setup(planted_time: Clock) -> TrialSetup:
    return TrialSetup(
        task=TaskObject(Task(model=lambda: Slow(planted_time), inputs=inputs, train=lambda model, run: None)),
        sites=find_sites(Slow(planted_time), inputs(3, None)),
        hold="width",
        weights="fresh",
        objectives=(),
        latency=LatencyProtocol(device="cpu", threads=1, batch_size=2, max_seconds=0.2),
        timed={"latency_ms": None},
        needs_memory=True,
        present=plan(4),
    )


def test_the_present_models_pass_is_examined(setup: TrialSetup) -> None:
    found = examine(setup)
    assert found.share.value == pytest.approx(0, abs=5e-3)  # by this clock attention takes no time
    assert found.blocks == ()
    assert found.launch is not None
    assert found.launch.bound == "work"
    assert found.launch.batch_sizes == (2, 1)


def test_several_lengths_are_examined_at_the_longest(setup: TrialSetup, planted_time: Clock) -> None:
    asked: list[tuple[int, int | None]] = []

    def noting(batch_size: int, seq_len: int | None) -> tuple[torch.Tensor]:
        asked.append((batch_size, seq_len))
        return (torch.zeros(batch_size, seq_len or 1, 8),)

    task = TaskObject(Task(model=lambda: Slow(planted_time), inputs=noting, train=lambda model, run: None))
    examine(replace(setup, task=task, latency=replace(setup.latency, seq_len=(3, 6), mode="train_step")))
    assert {seq_len for batch_size, seq_len in asked if batch_size in (1, 2)} == {6}


def test_each_plan_has_its_kernels(setup: TrialSetup) -> None:
    candidates = [Candidate(plan=plan(heads), params={}) for heads in (1, 4)]
    assert kernels_of(setup, candidates) == ({"attn": ("flash for the CPU",)}, {"attn": ("native multi-head",)})


def test_many_plans_are_measured_briefly(setup: TrialSetup) -> None:
    (seen,) = profile_briefly(setup, [Candidate(plan=plan(2), params={})])
    assert seen.latency is not None
    assert seen.peak_memory_mb is None
    assert seen.latency.samples < 30
    assert seen.latency.protocol.max_seconds == setup.latency.max_seconds / 8


def test_ways_to_spare_long_sequences_are_tried_or_told_why_not(setup: TrialSetup) -> None:
    ((within, again),) = long_variants_of(setup, [Candidate(plan=plan(2), params={})])
    assert within.refused == "attn: its sequence of 5 positions is no longer than the window of 128"
    assert (again.name, again.mode) == ("checkpointing", "train_step")
    assert again.refused is not None  # a single block is in no list of layers
