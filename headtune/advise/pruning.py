"""Pruning a trained model of a study to a goal."""

from contextlib import closing
from pathlib import Path

from headtune.errors import SpecError
from headtune.study import StudySpec, check, measuring_executor
from headtune.study.preparing import trial_setup
from headtune.trial.contract import Observer
from headtune.trial.pruning_job import Pruned, PruningJob, prune_trained


def prune_model(spec: StudySpec, folder: Path, observer: Observer, *, trained: Path | None = None) -> Pruned:
    """Prune a trained model step by step to the study's goal, and save the result.

    The study's storage is neither read nor written.

    Args:
        spec: the study; its task says how a model is judged, its ``prune`` how far and how.
        folder: gets the pruned model, for :func:`headtune.load`.
        observer: hears of every step.
        trained: folder of a saved model; ``None`` for what the task's ``model`` returns.

    Raises:
        SpecError: no goal is given; or no trained model.
        TaskError: the task lacks what is needed, or a function of it failed.
        SurgeryError: a site cannot lose heads.
        StorageError: a folder cannot be read or written.
    """
    if problems := _missing(spec, trained):
        raise SpecError(*problems)
    assert spec.prune.goal is not None
    checked = check(spec, observer)
    job = PruningJob(goal=spec.prune.goal, how=spec.prune.how, trained=trained, folder=folder)
    observer.phase("prune", spec.prune.goal.words)
    with closing(measuring_executor(spec, observer)) as executor:
        return executor.follow(prune_trained, trial_setup(spec, checked), job, say=observer.note)


def _missing(spec: StudySpec, trained: Path | None) -> list[str]:
    problems = []
    if spec.prune.goal is None:
        problems.append("prune: has no goal; give heads, latency_ratio or quality_loss, as in --set prune.heads=8")
    if spec.weights == "fresh" and trained is None:
        problems.append(
            "space.weights: fresh says that model() returns no trained model; name a saved one, such as a finalist's "
            "in models/ of the study's output (--from DIR)"
        )
    return problems
