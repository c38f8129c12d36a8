"""The closed schema of study.yaml.

Nothing here imports torch, so that a broken file is refused at once.
"""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

import headtune.rules as rules
from headtune.config.goals import ConstraintsSection, ObjectiveSection
from headtune.config.running import LatencySection, PruneSection, ResourcesSection, SearchSection, VerifySection
from headtune.config.section import Section, broken
from headtune.config.space import ParamRangeSection, SpaceSection
from headtune.config.values import EMPTY, FolderName, Location, Version, at_home, kept, refuse
from headtune.errors import SpaceError
from headtune.pareto.objective import counted, distinct, named_lengths


def _task(target: str, info: ValidationInfo) -> str:
    home, _, attr = target.rpartition(":")
    if not home or not attr.isidentifier():
        raise refuse("must name a file or a module and a name in it: train.py:task or package.module:task")
    if not home.endswith(".py"):
        return target
    home = at_home(home)
    path = os.path.realpath(Path(info.context or ".") / home)
    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises for what no file can be called
        raise refuse(f"there is no file {path}; the path starts from the study file's folder")
    return f"{home}:{attr}"


def _storage(url: str) -> str:
    scheme, mark, path = kept(rules.storage)(url).partition(":///")
    return f"{scheme}{mark}{at_home(path)}" if mark and scheme.startswith("sqlite") else url


class StudyFile(Section):
    """A whole study.yaml."""

    version: Version
    """1"""
    name: FolderName
    """what the study and its folder are called, such as digits-vit"""
    task: Annotated[str, AfterValidator(_task)]
    """train.py:task or package.module:task, where `task` is a headtune.Task or a function that returns one"""
    task_args: Annotated[dict[str, Any], EMPTY] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    space: SpaceSection
    """what is searched; begin with `hold` and `weights`"""
    objectives: Annotated[list[ObjectiveSection], Field(min_length=1)]
    """what is optimised, such as {metric: val_accuracy, direction: maximize}"""
    constraints: ConstraintsSection = ConstraintsSection()
    latency: Annotated[LatencySection, Field(validate_default=True)] = LatencySection()
    search: SearchSection = SearchSection()
    verify: VerifySection = VerifySection()
    prune: PruneSection = PruneSection()
    resources: Annotated[ResourcesSection, Field(validate_default=True)] = ResourcesSection()
    output: Location | None = None
    storage: Annotated[str, AfterValidator(_storage)] | None = None

    @field_validator("objectives")
    @classmethod
    def _objectives_agree(cls, objectives: list[ObjectiveSection]) -> list[ObjectiveSection]:
        problems = distinct([objective.metric for objective in objectives])
        if problems:
            raise broken(problems)
        return objectives

    @field_validator("constraints")
    @classmethod
    def _head_dims_agree(cls, constraints: ConstraintsSection, info: ValidationInfo) -> ConstraintsSection:
        space = info.data.get("space")
        if constraints.head_dim is not None and isinstance(space, SpaceSection):
            try:
                space.build(constraints.head_dim.build())
            except SpaceError as error:
                raise broken((("head_dim",), problem) for problem in error.problems) from None
        return constraints

    @field_validator("latency")
    @classmethod
    def _lengths_are_timed(cls, latency: LatencySection, info: ValidationInfo) -> LatencySection:
        goals = [goal.metric for goal in info.data.get("objectives", ())]
        constraints = info.data.get("constraints")
        limits = constraints.build() if isinstance(constraints, ConstraintsSection) else ()
        problems = named_lengths(goals, [limit.metric for limit in limits], latency.lengths)
        if problems:
            raise broken((("seq_len",), problem) for problem in problems)
        return latency

    @field_validator("search")
    @classmethod
    def _space_can_be_searched(cls, search: SearchSection, info: ValidationInfo) -> SearchSection:
        space = info.data.get("space")
        params = space.params if isinstance(space, SpaceSection) else {}
        real = [name for name, param in params.items() if isinstance(param, ParamRangeSection) and param.is_real]
        weights = space.weights if isinstance(space, SpaceSection) else ""
        goals = [goal.metric for goal in info.data.get("objectives", ())]
        problems = [
            (("sampler",), rules.grid(search.sampler, real)),
            (("sampler",), rules.ehvi(search.sampler, *counted(goals))),
            (("evaluator",), rules.supernet(search.evaluator, weights)),
        ]
        if problems := [problem for problem in problems if problem[1]]:
            raise broken(problems)
        return search

    @field_validator("resources")
    @classmethod
    def _gpu_is_there(cls, resources: ResourcesSection, info: ValidationInfo) -> ResourcesSection:
        latency = info.data.get("latency")
        device = latency.device if isinstance(latency, LatencySection) else ""
        unseen = rules.gpus_for(device, resources.executor, resources.gpus)
        if unseen:
            raise broken([(("gpus",), unseen)])
        return resources
