"""The closed schema of study.yaml.

Nothing here imports torch, so that a broken file is refused at once.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from headtune.config.section import Problem, Section, broken
from headtune.config.space import ParamRangeSection, SpaceSection
from headtune.config.values import EMPTY, AutoCount, Count, FolderName, Number, Seconds, Text, later, refuse
from headtune.errors import SpaceError
from headtune.heads.constraint import HeadDimConstraint, Limit, Reference
from headtune.pareto.objective import MEASURED_METRICS, Direction, Objective


class ObjectiveSection(Section):
    """One of ``objectives``."""

    metric: str
    """the name that the task reports, such as val_accuracy, or latency_ms, parameters or peak_memory_mb"""
    direction: Direction
    """maximize or minimize"""

    @field_validator("metric")
    @classmethod
    def _named(cls, metric: str) -> str:
        name, at, _ = metric.partition("@")
        if at and name in MEASURED_METRICS:
            raise refuse(f"{metric}: several sequence lengths are not available yet; write {name}")
        if not metric.isidentifier():
            raise refuse("must be a name as in Python code, as run.report(name=...) takes it")
        return metric

    def problems(self) -> Iterable[Problem]:
        """Of what is measured, less is better."""
        if self.metric in MEASURED_METRICS and self.direction == "maximize":
            yield ("direction",), f"must be minimize: of {self.metric}, less is better"

    def build(self) -> Objective:
        """The objective as headtune's value."""
        return Objective(metric=self.metric, direction=self.direction)


class HeadDimSection(Section):
    """``constraints.head_dim``."""

    min: int | None = None
    max: int | None = None
    multiple_of: int | None = None

    def build(self) -> HeadDimConstraint:
        """The constraint as headtune's value."""
        return HeadDimConstraint(min=self.min, max=self.max, multiple_of=self.multiple_of)


class LimitSection(Section):
    """``constraints.latency_ms`` and the like: ``{max: 4.0}`` or ``{max_ratio: 1.5, of: present}``."""

    max: Number | None = None
    max_ratio: Number | None = None
    of: Reference | None = None

    def problems(self) -> Iterable[Problem]:
        """What the limit itself refuses."""
        try:
            self.limit("limit")
        except SpaceError as error:
            return [((), problem.removeprefix("limit: ")) for problem in error.problems]
        return ()

    def limit(self, metric: str) -> Limit:
        """The limit of *metric* as headtune's value."""
        return Limit(metric=metric, max=self.max, max_ratio=self.max_ratio, of=self.of)


class ConstraintsSection(Section):
    """What every plan must keep."""

    head_dim: HeadDimSection | None = None
    latency_ms: LimitSection | None = None
    parameters: LimitSection | None = None
    peak_memory_mb: LimitSection | None = None

    def build(self) -> tuple[Limit, ...]:
        """The limits as headtune's values, without that on head_dim, which shapes the space."""
        given = {"latency_ms": self.latency_ms, "parameters": self.parameters, "peak_memory_mb": self.peak_memory_mb}
        return tuple(section.limit(metric) for metric, section in given.items() if section is not None)


_MODES = dict.fromkeys(("train_step", "decode"), "only forward is timed so far; write forward")


def _one_length(value: object) -> object:
    if isinstance(value, list):
        raise refuse("several sequence lengths are not available yet; write one number")
    return value


def _gpus(gpus: float) -> float:
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        raise refuse("must be 0, a share of one GPU such as 0.5, or a whole number of GPUs")
    return gpus


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


class LatencySection(Section):
    """How latency is measured."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")] = "auto"
    threads: AutoCount = "auto"
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    batch_size: Count = 32
    seq_len: Annotated[Count | None, BeforeValidator(_one_length)] = None
    mode: Annotated[Literal["forward"], later(_MODES)] = "forward"


class SearchSection(Section):
    """How long and how to search."""

    trials: Count = 40
    timeout: Seconds | None = None
    sampler: Literal["auto", "tpe", "gp", "nsga2", "random", "grid"] = "auto"
    epochs: Count = 10
    stop_early: bool = True


class VerifySection(Section):
    """How finalists are judged."""

    top: Count = 5
    seeds: Annotated[int, Field(ge=0)] = 3


class ResourcesSection(Section):
    """What one trial gets, and where trials run."""

    cpus: Count = 1
    gpus: Annotated[Number, AfterValidator(_gpus)] = 0
    concurrent: AutoCount = "auto"
    cluster: Text = "local"
    executor: Literal["ray", "inline"] = "ray"

    def problems(self) -> Iterable[Problem]:
        """What the inline executor cannot do."""
        if self.executor == "inline" and self.concurrent not in ("auto", 1):
            yield ("concurrent",), f"must be 1 or auto under `executor: inline` (got {self.concurrent})"
        if self.executor == "inline" and self.cluster != "local":
            yield ("cluster",), "must be local under `executor: inline`"


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
