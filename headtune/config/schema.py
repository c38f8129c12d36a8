"""The closed schema of study.yaml.

Nothing here imports torch, so that a broken file is refused at once.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from headtune.config.goals import ConstraintsSection, ObjectiveSection
from headtune.config.running import LatencySection, ResourcesSection, SearchSection, VerifySection
from headtune.config.section import Problem, Section, broken
from headtune.config.space import ParamRangeSection, SpaceSection
from headtune.config.values import EMPTY, FolderName, Text, refuse
from headtune.errors import SpaceError
from headtune.pareto.objective import MEASURED_METRICS


def _task(target: str, info: ValidationInfo) -> str:
    home, _, attr = target.rpartition(":")
    if not home or not attr.isidentifier():
        raise refuse("must name a file or a module and a name in it: train.py:task or package.module:task")
    path = Path(info.context or ".") / home
    if home.endswith(".py") and not path.is_file():
        raise refuse(f"there is no file {path.resolve()}; the path starts from the study file's folder")
    return target


def _storage(url: str) -> str:
    if "://" not in url:
        raise refuse("must be a URL: sqlite:///study.db for a file, or postgresql://user@host/name")
    if url in ("sqlite://", "sqlite:///:memory:"):
        raise refuse("must keep what it is given: write sqlite:///study.db")
    return url


class StudyFile(Section):
    """A whole study.yaml."""

    version: Literal[1]
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
    latency: LatencySection = LatencySection()
    search: SearchSection = SearchSection()
    verify: VerifySection = VerifySection()
    resources: Annotated[ResourcesSection, Field(validate_default=True)] = ResourcesSection()
    output: Text | None = None
    storage: Annotated[str, AfterValidator(_storage)] | None = None

    @field_validator("objectives")
    @classmethod
    def _objectives_agree(cls, objectives: list[ObjectiveSection]) -> list[ObjectiveSection]:
        metrics = [objective.metric for objective in objectives]
        problems: list[Problem] = [
            ((index, "metric"), f"{metric} is an objective already; keep one")
            for index, metric in enumerate(metrics)
            if metric in metrics[:index]
        ]
        if all(metric in MEASURED_METRICS for metric in metrics):
            problems.append(((), "must name at least one metric that the task reports, beside what headtune measures"))
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

    @field_validator("search")
    @classmethod
    def _grid_is_finite(cls, search: SearchSection, info: ValidationInfo) -> SearchSection:
        space = info.data.get("space")
        if search.sampler == "grid" and isinstance(space, SpaceSection):
            params = space.params.items()
            real = [name for name, param in params if isinstance(param, ParamRangeSection) and param.is_real]
            if real:
                raise broken([(("sampler",), f"grid cannot list the real numbers of {', '.join(real)}; give choices")])
        return search

    @field_validator("resources")
    @classmethod
    def _gpu_is_there(cls, resources: ResourcesSection, info: ValidationInfo) -> ResourcesSection:
        latency = info.data.get("latency")
        on_gpu = isinstance(latency, LatencySection) and latency.device.startswith("cuda")
        if on_gpu and resources.executor == "ray" and resources.gpus == 0:
            raise broken([(("gpus",), "must be more than 0 for `latency.device: cuda`: trials see no GPU otherwise")])
        return resources
