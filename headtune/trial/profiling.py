"""What a worker tells of the study's model beside the latency of plans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from headtune.heads import AttentionSite
from headtune.timing import LatencyProtocol, LongVariant, long_sequence_variants
from headtune.timing.traits import (
    AttentionShare,
    LaunchTest,
    attention_extent,
    attention_kernels,
    attention_share,
    launch_test,
)
from headtune.trial.build import build_planned, inputs_of, probe_inputs
from headtune.trial.fitting import to_device
from headtune.trial.measuring import REFERENCE_SEED, Candidate, Profiled, lane_of, profile_candidates
from headtune.trial.setup import TrialSetup
from headtune.trial.timed_loss import timed_loss

_FEW = 10
"""Pairs from which on a measurement ends that need not be precise by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTraits:
    """What a pass of the present model is made of.

    Attributes:
        share: of its attention.
        blocks: sites whose modules hold other layers too, so that the share counts those as well.
        launch: what it is bound by; ``None`` where the task's inputs do not follow the batch size.
    """

    share: AttentionShare
    blocks: tuple[str, ...]
    launch: LaunchTest | None


Kernels = Mapping[str, tuple[str, ...]]
"""Path → the kernels that computed its attention."""


def examine(setup: TrialSetup) -> PassTraits:
    """What a pass of the present plan's model is made of, timed alone in the lane."""
    task, lane = setup.task.load(), lane_of(setup)
    with lane.shared():
        model = build_planned(setup, task, setup.present, setup.baseline_params, REFERENCE_SEED)
        inputs = partial(inputs_of, task)
        paths = [site.path for site in setup.sites]
        probe: Any = to_device(probe_inputs(task, setup.latency), torch.device(setup.device))
        brief = _briefer(setup.latency, 2)
        extent = attention_extent(model, probe, paths)
        return PassTraits(
            share=attention_share(model, inputs, brief, paths, outputs=extent.outputs, lane=lane),
            blocks=extent.more,
            launch=launch_test(model, inputs, brief, lane=lane),
        )


def kernels_of(setup: TrialSetup, candidates: Sequence[Candidate]) -> tuple[Kernels, ...]:
    """The kernels that compute the attention of each candidate, as seen in one pass."""
    task = setup.task.load()
    models = (build_planned(setup, task, one.plan, one.params, REFERENCE_SEED) for one in candidates)
    paths = [site.path for site in setup.sites]
    with lane_of(setup).shared():
        return tuple(attention_kernels(model, partial(inputs_of, task), setup.latency, paths) for model in models)


def profile_briefly(setup: TrialSetup, candidates: Sequence[Candidate]) -> tuple[Profiled, ...]:
    """Measure each candidate in an eighth of the protocol's time: what many plans have in common needs no more."""
    brief = replace(setup, latency=_briefer(setup.latency, 8), needs_memory=False)
    return profile_candidates(brief, candidates)


def long_variants_of(setup: TrialSetup, candidates: Sequence[Candidate]) -> tuple[tuple[LongVariant, ...], ...]:
    """What a window and checkpointing would change for each candidate, at the longest sequence length."""
    task, lane = setup.task.load(), lane_of(setup)
    loss, protocol = timed_loss(task, _briefer(setup.latency, 2))
    inputs = partial(inputs_of, task)
    models = (build_planned(setup, task, one.plan, one.params, REFERENCE_SEED) for one in candidates)
    with lane.shared():
        return tuple(
            long_sequence_variants(model, inputs, protocol, _planned_sites(setup, one), lane=lane, loss=loss)
            for one, model in zip(candidates, models, strict=True)
        )


def _planned_sites(setup: TrialSetup, one: Candidate) -> tuple[AttentionSite, ...]:
    """The sites with the candidate's counts."""
    return tuple(replace(site, **one.plan[site.path]._asdict()) for site in setup.sites)


def _briefer(protocol: LatencyProtocol, times: int) -> LatencyProtocol:
    """The same protocol with less time and fewer samples."""
    return replace(protocol, min_samples=min(_FEW, protocol.min_samples), max_seconds=protocol.max_seconds / times)
