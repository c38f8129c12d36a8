"""Everything a study is told, as one frozen value: what a study file says, and what Python users pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headtune.heads import Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.search.sampler import SamplerName
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.params import Param
from headtune.trial.reference import TaskSource
from headtune.trial.setup import Weights

ExecutorName = Literal["ray", "inline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How long and how to search.

    Attributes:
        trials: plans to train, stopped ones included; infeasible ones are free.
        timeout_s: wall seconds of the whole search, over restarts; ``None`` for no bound.
        sampler: who proposes.
        epochs: what ``run.epochs`` says.
        stop_early: whether the broker may stop trials.
    """

    trials: int = 40
    timeout_s: float | None = None
    sampler: SamplerName = "auto"
    epochs: int = 10
    stop_early: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How finalists are judged: the *top* plans of the front, each retrained with *seeds* more seeds."""

    top: int = 5
    seeds: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one trial gets, and how many run at once (``None``: as many as fit)."""

    cpus: int = 1
    gpus: float = 0
    concurrent: int | None = None
    cluster: str = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """A study, complete.

    Attributes:
        storage: an Optuna storage URL (``sqlite:///…``, ``postgresql://…``).
        output: folder for the report's files; ``None`` writes none.
    """

    name: str
    task: TaskSource
    space: SpaceOptions
    weights: Weights
    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...] = ()
    params: Mapping[str, Param] = field(default_factory=dict)
    latency: LatencyProtocol = field(default_factory=LatencyProtocol)
    search: SearchOptions = field(default_factory=SearchOptions)
    verify: VerifyOptions = field(default_factory=VerifyOptions)
    resources: Resources = field(default_factory=Resources)
    executor: ExecutorName = "ray"
    storage: str
    output: Path | None = None
    seed: int = 0
