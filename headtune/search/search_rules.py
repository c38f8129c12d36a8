"""How a search goes, as its broker is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headtune.search.sampler import SamplerName
from headtune.trial import Param


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRules:
    """How a search goes.

    Attributes:
        params: extra hyper-parameters, by name.
        limits: the constraints' names, in the order in which their violations are kept.
        sampler: who proposes.
        trials: to be trained, baselines and stopped ones included; infeasible ones are free.
        epochs: reports of a full training.
        stop_early: whether hopeless trials may be stopped.
        concurrent: trials at once.
        seed: the study's.
        timeout_s: wall seconds of the search, over restarts, after which no trial is started; ``None`` for no bound.
        built_with: params that the model is built with, where trials are timed: one timing serves every trial with the
            same plan and the same values of these; ``None`` where none is timed.
    """

    params: Mapping[str, Param] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    sampler: SamplerName = "auto"
    trials: int
    epochs: int
    stop_early: bool = True
    concurrent: int = 1
    seed: int = 0
    timeout_s: float | None = None
    built_with: tuple[str, ...] | None = None
