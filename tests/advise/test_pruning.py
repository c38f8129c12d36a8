"""What a pruning of a study's model needs, told at once and before anything runs."""

from pathlib import Path

import pytest

from headtune.advise import prune_model
from headtune.errors import SpecError
from headtune.heads import SpaceOptions
from headtune.pareto import Objective
from headtune.study import StudySpec
from headtune.trial import Silent
from headtune.trial.reference import TaskReference

TASKS = Path(__file__).parents[1] / "tasks"


def test_a_goal_and_a_trained_model_are_missed_together(tmp_path: Path) -> None:
    spec = StudySpec(
        name="x",
        task=TaskReference(target="trained.py:task", base=TASKS, args={"trains": True}),
        space=SpaceOptions(hold="head_dim"),
        weights="fresh",
        objectives=(Objective(metric="likeness", direction="maximize"),),
        storage=f"sqlite:///{tmp_path}/study.db",
    )
    with pytest.raises(SpecError) as caught:
        prune_model(spec, tmp_path / "small", Silent())
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["prune", "space.weights"]
    assert not (tmp_path / "small").exists()
