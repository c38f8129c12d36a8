"""A study in Python: ask, build, tell."""

import math
from pathlib import Path

import pytest

import headtune
from headtune.errors import Infeasible, InputError, StudyBusyError, TaskError
from headtune.heads import HeadDimConstraint, Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.study.session import Study
from headtune.surgery import find_sites
from headtune.trial import Outcome, TaskReference

GOALS = (
    Objective(metric="quality", direction="maximize"),
    Objective(metric="parameters", direction="minimize"),
)


def task() -> headtune.Task:
    return TaskReference(target="tiny.py:task", base=Path(__file__).parents[1] / "tasks").load()


def study(folder: Path, **changes: object) -> Study:
    values = {
        "space": SpaceOptions(hold="width"),
        "weights": "fresh",
        "objectives": GOALS,
        "storage": f"sqlite:///{folder / 'study.db'}",
        "epochs": 1,
    }
    return Study(task(), **{**values, **changes})  # type: ignore[arg-type]


def test_ask_build_tell_and_front(tmp_path: Path) -> None:
    with study(tmp_path) as ours:
        for quality in (0.1, 0.3, 0.2, 0.4):
            trial = ours.ask()
            model = trial.build()
            sites = find_sites(model, task().inputs(3, None))
            assert [site.num_heads for site in sites] == [count.num_heads for _, count in trial.plan]
            record = ours.tell(trial, {"quality": quality})
            assert record.metrics == {"quality": quality, "parameters": 4465}
    best = ours.front().knee()
    assert best.metrics["quality"] == 0.4
    assert best.kind == "search"


def test_what_was_asked_and_not_told_is_asked_again(tmp_path: Path) -> None:
    ours = study(tmp_path)
    first = ours.ask()
    ours.close()
    again = study(tmp_path).ask()
    assert again.plan == first.plan


def test_an_infeasible_plan_is_told_and_raised(tmp_path: Path) -> None:
    constraints = [Limit(metric="parameters", max=4465), HeadDimConstraint(max=8)]
    space = SpaceOptions(hold="head_dim", heads=(1, 2, 3, 4, 8))
    with study(tmp_path, space=space, constraints=constraints) as ours:
        refused: list[str] = []
        for _ in range(12):
            trial = ours.ask()
            try:
                trial.build()
            except Infeasible as error:
                refused.append(str(error))
                continue
            ours.tell(trial, {"quality": 0.0})
    outcomes = [record.outcome for record in ours.record().trials]
    assert outcomes.count(Outcome.INFEASIBLE) == len(refused) > 0
    assert all("breaks parameters by" in message for message in refused)


def test_a_value_that_is_not_finite_is_a_diverged_trial(tmp_path: Path) -> None:
    with study(tmp_path) as ours:
        trial = ours.ask()
        trial.build()
        assert ours.tell(trial, {"quality": math.nan}).outcome is Outcome.DIVERGED


def test_a_missing_metric_is_refused_and_the_trial_stays_open(tmp_path: Path) -> None:
    with study(tmp_path) as ours:
        trial = ours.ask()
        trial.build()
        with pytest.raises(TaskError) as caught:
            ours.tell(trial, {"loss": 1.0})
        assert str(caught.value) == "tell: quality is missing; got loss"
        assert ours.tell(trial, {"quality": 1.0}).outcome is Outcome.OK


def test_only_one_driver_holds_the_study(tmp_path: Path) -> None:
    with study(tmp_path) as ours:
        ours.ask()
        with pytest.raises(StudyBusyError):
            study(tmp_path).ask()


def test_asking_past_the_baselines_waits_for_them(tmp_path: Path) -> None:
    with study(tmp_path) as ours:
        for _ in range(3):
            ours.ask()
        with pytest.raises(InputError, match="the baselines come first"):
            ours.ask()


def test_a_task_object_runs_whole(tmp_path: Path) -> None:
    record = study(tmp_path).run(trials=4, executor="inline", verify=headtune.VerifyOptions(top=1, seeds=1))
    assert len(record.trials) == 4
    assert record.task == "given in Python"
