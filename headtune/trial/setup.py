"""What stays the same over all trials of a study; shipped once to each worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.plan import HeadPlan
from headtune.heads.ranking import HeadRanking
from headtune.heads.site import AttentionSite, Hold
from headtune.pareto.objective import Objective
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.params import ParamValue
from headtune.trial.reference import TaskSource

Weights = Literal["fresh", "keep"]
"""What a trial starts from: tensors that the plan changes initialised anew, or a trained checkpoint's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSetup:
    """What a worker needs beside the request.

    Attributes:
        task: where the person's task comes from.
        sites: the model's attention sites, in order.
        objectives: what is optimised.
        head_dim: the constraint on head_dim, if any.
        limits: metric → greatest allowed value, in the metric's unit, resolved against the profile.
        latency: the protocol, with device and threads resolved.
        timed: each latency metric that is an objective or limited → the sequence length that it is the latency at,
            ascending.
        needs_memory: whether ``peak_memory_mb`` is an objective or limited.
        present: the counts the model has today: the reference that every plan is timed against.
        ranking: which heads stay, where trained weights are kept; ``None`` where they are not, or nothing is scored.
        reference_ms: latency metric → the frozen median of the present plan, in ms; empty until it is profiled.
        reference_device: what the device calls itself that the reference was timed on; empty until it is profiled.
        baseline_params: what the reference model is built with.
        threads: intra-op CPU threads of a trial.
        device: where a trial trains, ``cpu`` or ``cuda``.
        scratch: folder for checkpoints of unfinished trials; ``None`` keeps none.
        models_dir: where verify trials leave their trained models; ``None`` leaves none.
        lane_dir: folder of the lane's locks on the node; ``None`` for the node's default.
    """

    task: TaskSource
    sites: tuple[AttentionSite, ...]
    hold: Hold
    weights: Weights
    objectives: tuple[Objective, ...]
    head_dim: HeadDimConstraint | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    latency: LatencyProtocol
    timed: Mapping[str, int | None] = field(default_factory=dict)
    needs_memory: bool
    present: HeadPlan
    ranking: HeadRanking | None = None
    reference_ms: Mapping[str, float] = field(default_factory=dict)
    reference_device: str = ""
    baseline_params: Mapping[str, ParamValue] = field(default_factory=dict)
    threads: int = 1
    device: str = "cpu"
    scratch: Path | None = None
    models_dir: Path | None = None
    lane_dir: Path | None = None

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """The sequence lengths that are timed, ascending; one ``None`` where the study names none."""
        return tuple(dict.fromkeys(self.timed.values()))

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """The constraints, in the fixed order in which violations are kept."""
        return (*self.limits, *([] if self.head_dim is None else [self.head_dim.name]))
