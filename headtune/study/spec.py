"""Everything a study is told, as one frozen value: what a study file says, and what Python users pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import SpecError
from headtune.heads import Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.pareto.objective import counted, distinct, limitable, named_lengths, reportable
from headtune.search.sampler import SamplerName
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.params import ChoiceParam, FloatParam, IntParam, Param
from headtune.trial.prune_options import PruneGoal, Shrinking
from headtune.trial.reference import TaskSource
from headtune.trial.setup import Weights

ExecutorName = Literal["ray", "inline"]
Evaluator = Literal["train", "supernet"]
"""Who judges which plans are worth a training: the sampler, by trainings; or one training of all plans at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How long and how to search.

    Attributes:
        trials: plans to train, stopped ones included; infeasible ones are free.
        timeout_s: wall seconds of the whole search, over restarts; ``None`` for no bound.
        sampler: who proposes.
        epochs: what ``run.epochs`` says.
        stop_early: whether the broker may stop trials.
        evaluator: who judges which plans are worth a training; ``supernet`` needs no sampler.

    Raises:
        SpecError: lists every value that has no meaning.
    """

    trials: int = 40
    timeout_s: float | None = None
    sampler: SamplerName = "auto"
    epochs: int = 10
    stop_early: bool = True
    evaluator: Evaluator = "train"

    def __post_init__(self) -> None:
        _keep(
            {
                "trials": (self.trials, rules.count),
                "timeout_s": (self.timeout_s, rules.optional(rules.positive)),
                "sampler": (self.sampler, rules.one_of(get_args(SamplerName))),
                "epochs": (self.epochs, rules.count),
                "stop_early": (self.stop_early, rules.truth),
                "evaluator": (self.evaluator, rules.one_of(get_args(Evaluator))),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How finalists are judged: retrained with fresh seeds, the more of them the closer they are.

    Attributes:
        top: plans of the front at most, and as many more at most that may belong on it, given the noise.
        seeds: that each finalist gets.
        max_seeds: that one gets at most, where it is not yet told which is better; ``None`` for three times *seeds*.

    Raises:
        SpecError: lists every value that has no meaning.
    """

    top: int = 5
    seeds: int = 3
    max_seeds: int | None = None

    def __post_init__(self) -> None:
        _keep(
            {
                "VerifyOptions.top": (self.top, rules.count),
                "VerifyOptions.seeds": (self.seeds, rules.at_least(0)),
                "VerifyOptions.max_seeds": (self.max_seeds, rules.optional(rules.count)),
            }
        )
        problems = rules.most_seeds(self.seeds, self.max_seeds)
        if problems:
            raise SpecError(*rules.sentences([(("VerifyOptions", *keys), told) for keys, told in problems]))

    @property
    def most(self) -> int:
        """Seeds that a finalist gets at most."""
        return 3 * self.seeds if self.max_seeds is None else self.max_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions:
    """How a trained model is pruned.

    Attributes:
        goal: how far; ``None`` where nobody has said.
        how: in which steps.

    Raises:
        SpecError: lists every value that has no meaning.
    """

    goal: PruneGoal | None = None
    how: Shrinking = field(default_factory=Shrinking)

    def __post_init__(self) -> None:
        _keep(
            {
                "PruneOptions.goal": (
                    self.goal,
                    rules.optional(rules.a(PruneGoal, "a PruneGoal, such as PruneGoal(heads=8)")),
                ),
                "PruneOptions.how": (self.how, rules.a(Shrinking, "a Shrinking, such as Shrinking(steps=100)")),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one trial gets, and how many run at once (``None``: as many as fit).

    Attributes:
        cluster: ``local`` for this machine; else the address of a running Ray cluster, or ``auto``.
        node: address or host name of the one machine that trials run on and latency counts on; ``None`` for any.
        accelerator: Ray's name for the accelerator of the machines that trials run on, such as ``A100``; ``None`` for
            any.

    Raises:
        SpecError: lists every value that has no meaning.
    """

    cpus: int = 1
    gpus: float = 0
    concurrent: int | None = None
    cluster: str = "local"
    node: str | None = None
    accelerator: str | None = None

    def __post_init__(self) -> None:
        _keep(
            {
                "Resources.cpus": (self.cpus, rules.count),
                "Resources.gpus": (self.gpus, rules.gpus),
                "Resources.concurrent": (self.concurrent, rules.optional(rules.count)),
                "Resources.cluster": (self.cluster, rules.text),
                "Resources.node": (self.node, rules.optional(rules.text)),
                "Resources.accelerator": (self.accelerator, rules.optional(rules.text)),
            }
        )

    @property
    def elsewhere(self) -> str:
        """The key that says where trials run, with its value; empty where any machine will do."""
        named = {"node": self.node, "accelerator": self.accelerator}
        return " and ".join(f"resources.{key} {value}" for key, value in named.items() if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """A study, complete.

    Attributes:
        storage: an Optuna storage URL (``sqlite:///…``, ``postgresql://…``).
        output: folder for the report's files; ``None`` writes none.

    Raises:
        SpecError: lists everything that has no meaning, or that contradicts something else.
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
    prune: PruneOptions = field(default_factory=PruneOptions)
    resources: Resources = field(default_factory=Resources)
    executor: ExecutorName = "ray"
    storage: str
    output: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        kinds = rules.broken(
            {
                "name": (self.name, rules.folder_name),
                "space": (self.space, rules.a(SpaceOptions, "SpaceOptions, such as SpaceOptions(hold='width')")),
                "weights": (self.weights, rules.one_of(get_args(Weights))),
                "objectives": (self.objectives, rules.each(Objective, "Objective(metric=..., direction=...)", least=1)),
                "constraints": (self.limits, rules.each(Limit, "Limit(metric=..., max=...) or HeadDimConstraint(...)")),
                "params": (self.params, rules.a(Mapping, "a mapping of name to FloatParam, IntParam or ChoiceParam")),
                "latency": (self.latency, rules.a(LatencyProtocol, "a LatencyProtocol")),
                "search": (self.search, rules.a(SearchOptions, "SearchOptions")),
                "verify": (self.verify, rules.a(VerifyOptions, "VerifyOptions")),
                "prune": (self.prune, rules.a(PruneOptions, "PruneOptions")),
                "resources": (self.resources, rules.a(Resources, "Resources")),
                "executor": (self.executor, rules.one_of(get_args(ExecutorName))),
                "output": (self.output, rules.optional(rules.path)),
                "seed": (self.seed, rules.seed),
            }
        )
        unsound = {problem.partition(":")[0] for problem in kinds}
        problems = [
            *kinds,
            *rules.sentences([(("storage",), rules.storage(self.storage))]),  # it may hold a password
            *(_objectives(self.objectives) if "objectives" not in unsound else ()),
            *(_limits(self.limits) if "constraints" not in unsound else ()),
            *(_params(self.params) if "params" not in unsound else ()),
            *(self._disagreements() if not unsound else ()),
        ]
        if problems:
            raise SpecError(*problems)

    def _disagreements(self) -> list[str]:
        """What is wrong with values that are sound each by itself."""
        asked = self.resources
        real = [name for name, param in self.params.items() if isinstance(param, FloatParam)]
        space = self.space
        head_dims: dict[tuple[str, ...], object] = {("head_dims",): space.head_dims}
        for selector, here in space.sites.items():
            head_dims["sites", selector, "head_dims"] = here.head_dims
        goals, limits = [goal.metric for goal in self.objectives], [limit.metric for limit in self.limits]
        kept = rules.kept_weights(self.weights, space.hold, head_dims)
        return rules.sentences(
            [
                *((("space", *keys), sentence) for keys, sentence in kept),
                *(
                    (("latency", "seq_len"), sentence)
                    for sentence in named_lengths(goals, limits, self.latency.lengths)
                ),
                (("sampler",), rules.grid(self.search.sampler, real)),
                (("sampler",), rules.ehvi(self.search.sampler, *counted(goals))),
                (("evaluator",), rules.supernet(self.search.evaluator, self.weights)),
                (("resources", "gpus"), rules.gpus_for(self.latency.device, self.executor, asked.gpus)),
                *(
                    (("resources", *keys), sentence)
                    for keys, sentence in rules.inline(
                        self.executor,
                        asked.concurrent,
                        asked.cluster,
                        node=asked.node,
                        accelerator=asked.accelerator,
                    )
                ),
            ]
        )


def _objectives(objectives: Sequence[Objective]) -> list[str]:
    metrics = [goal.metric for goal in objectives]
    named = {f"objectives.{index}.metric": (metric, reportable) for index, metric in enumerate(metrics)}
    return rules.broken(named) + rules.sentences([(("objectives", *keys), told) for keys, told in distinct(metrics)])


def _limits(limits: Sequence[Limit]) -> list[str]:
    metrics = [limit.metric for limit in limits]
    named = {f"constraints.{index}.metric": (metric, limitable) for index, metric in enumerate(metrics)}
    twice = dict.fromkeys(metric for index, metric in enumerate(metrics) if metric in metrics[:index])
    return rules.broken(named) + [f"constraints: {metric} is limited twice; keep one" for metric in twice]


def _params(params: Mapping[str, Param]) -> list[str]:
    kind = rules.a((FloatParam, IntParam, ChoiceParam), "a FloatParam, an IntParam or a ChoiceParam")
    names = {f"params: {name!r}": (name, rules.identifier) for name in params}
    return rules.broken(names) + rules.broken({f"params: {name}": (param, kind) for name, param in params.items()})


def _keep(values: Mapping[str, tuple[object, rules.Rule]]) -> None:
    problems = rules.broken(values)
    if problems:
        raise SpecError(*problems)
