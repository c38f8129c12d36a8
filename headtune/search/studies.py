"""Optuna studies by name, in one storage."""

from collections.abc import Sequence
from contextlib import suppress

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from headtune.pareto import Objective
from headtune.search.quiet import silent


def find_study(storage: BaseStorage, name: str) -> int | None:
    """The id of the study called *name*; ``None`` where there is none."""
    try:
        return storage.get_study_id_from_name(name)
    except KeyError:
        return None


def open_study(storage: BaseStorage, name: str, objectives: Sequence[Objective]) -> int:
    """The id of the study called *name*, made with named objectives if it is not there yet."""
    with silent():
        with suppress(DuplicatedStudyError):
            storage.create_new_study([StudyDirection[goal.direction.upper()] for goal in objectives], name)
        study = optuna.load_study(study_name=name, storage=storage)
        study.set_metric_names([goal.metric for goal in objectives])
    return storage.get_study_id_from_name(name)


def study_names(storage: BaseStorage) -> list[str]:
    """The names of all studies, the retrainings of finalists left out."""
    return [study.study_name for study in storage.get_all_studies() if not study.study_name.endswith(VERIFY_SUFFIX)]


VERIFY_SUFFIX = " (verify)"
"""What the retrainings of a study's finalists are called after its name."""
