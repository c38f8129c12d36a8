"""From what a study file says to a study."""

from pathlib import Path

from headtune.config.places import output_of, storage_of
from headtune.config.running import PruneSection
from headtune.config.schema import StudyFile
from headtune.config.space import ParamChoiceSection, ParamRangeSection
from headtune.rules import PRUNE_GOALS
from headtune.study.spec import PruneOptions, Resources, SearchOptions, StudySpec, VerifyOptions
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.params import ChoiceParam, FloatParam, IntParam, Param
from headtune.trial.prune_options import PruneGoal, Shrinking
from headtune.trial.reference import TaskReference


def build_study(file: StudyFile, folder: Path) -> StudySpec:
    """The study that *file* says.

    Args:
        file: a checked study file.
        folder: where its relative paths start.
    """
    constraints, latency, resources = file.constraints, file.latency, file.resources
    return StudySpec(
        name=file.name,
        task=TaskReference(target=file.task, base=folder, args=file.task_args),
        space=file.space.build(constraints.head_dim.build() if constraints.head_dim else None),
        weights=file.space.weights,
        objectives=tuple(objective.build() for objective in file.objectives),
        limits=constraints.build(),
        params={name: _param(section) for name, section in file.space.params.items()},
        latency=LatencyProtocol(**{**latency.model_dump(), "threads": _number(latency.threads)}),
        search=SearchOptions(
            trials=file.search.trials,
            timeout_s=file.search.timeout,
            sampler=file.search.sampler,
            epochs=file.search.epochs,
            stop_early=file.search.stop_early,
            evaluator=file.search.evaluator,
        ),
        verify=VerifyOptions(top=file.verify.top, seeds=file.verify.seeds, max_seeds=_number(file.verify.max_seeds)),
        prune=_pruning(file.prune, file.seed),
        resources=Resources(
            cpus=resources.cpus,
            gpus=resources.gpus,
            concurrent=_number(resources.concurrent),
            cluster=resources.cluster,
            node=resources.node,
            accelerator=resources.accelerator,
        ),
        executor=resources.executor,
        storage=storage_of(file, folder),
        output=output_of(file, folder),
        seed=file.seed,
    )


def _pruning(section: PruneSection, seed: int) -> PruneOptions:
    steps = section.model_dump(exclude=set(PRUNE_GOALS))
    goal = None
    if section.goals:
        goal = PruneGoal(heads=section.heads, latency_ratio=section.latency_ratio, quality_loss=section.quality_loss)
    return PruneOptions(goal=goal, how=Shrinking(**steps, seed=seed))


def _number(setting: str | int) -> int | None:
    """A number, or ``None`` for ``auto``."""
    return setting if isinstance(setting, int) else None


def _param(section: list[str | bool | int | float] | ParamRangeSection | ParamChoiceSection) -> Param:
    if isinstance(section, list):
        return ChoiceParam(choices=tuple(section))
    default = section.default
    if isinstance(section, ParamChoiceSection):
        return ChoiceParam(choices=tuple(section.choices), default=default)
    low, high, log = section.low, section.high, section.log
    number = default if isinstance(default, int | float) else None
    if section.is_real:
        return FloatParam(low=float(low), high=float(high), log=log, default=None if number is None else float(number))
    return IntParam(low=int(low), high=int(high), log=log, default=None if number is None else int(number))
