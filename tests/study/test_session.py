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
from headtune.trial import Outcome, Silent, TaskReference

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


def test_a_profile_needs_no_storage(tmp_path: Path) -> None:
    latency = headtune.LatencyProtocol(batch_size=2, max_seconds=0.05, min_samples=6)
    found = study(tmp_path, latency=latency).profile(Silent())
    assert found.latency is not None
    assert found.details is not None
    assert {"smallest", "present", "largest"} <= found.latency.profiles.keys()
    assert list(tmp_path.iterdir()) == []


def test_what_was_asked_and_not_told_is_asked_again(tmp_path: Path) -> None:
    ours = study(tmp_path)
    first = ours.ask()
    ours.close()
    again = study(tmp_path).ask()
    assert again.plan == first.plan


@pytest.mark.slow
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
    assert all("breaks parameters: " in message for message in refused)


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
    record = study(tmp_path).run(
        trials=4, executor="inline", verify=headtune.VerifyOptions(top=1, seeds=1, max_seeds=1)
    )
    assert sum(trial.outcome is not None and trial.outcome.trained for trial in record.trials) == 4
    assert record.task == "given in Python"


def test_everything_wrong_in_a_description_is_told_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space = SpaceOptions(hold="width", head_dim=HeadDimConstraint(min=2))
    with pytest.raises(InputError) as caught:
        Study(
            "train.py:task",  # type: ignore[arg-type]
            space=space,
            weights="kept",  # type: ignore[arg-type]
            objectives=GOALS[0],  # type: ignore[arg-type]
            constraints=[HeadDimConstraint(max=8), "latency"],  # type: ignore[list-item]
            epochs=0,
            stop_early=1,  # type: ignore[arg-type]
            name="",
            output="",
            seed=-1,
        )
    assert caught.value.problems == (
        "task: must be a headtune.Task (got 'train.py:task')",
        "name: must be letters, digits, '.', '_' and '-', at most 100: it names a folder (got '')",
        "weights: must be fresh or keep (got 'kept')",
        "objectives: must be a list of Objective(metric=..., direction=...) "
        "(got Objective(metric='quality', direction='maximize'))",
        "constraints: must be a list of Limit(metric=..., max=...) or HeadDimConstraint(...) (got ('latency',))",
        "seed: must be at least 0 (got -1)",
        "epochs: must be at least 1 (got 0)",
        "stop_early: must be True or False (got 1)",
        "constraints: head_dim is constrained twice; keep one HeadDimConstraint",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_breaks_its_contract_is_told_at_once_too(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Study(
            headtune.Task(model=3, inputs=lambda b, s: ()),  # type: ignore[arg-type]
            space=SpaceOptions(hold="width"),
            weights="fresh",
            objectives=GOALS,
            epochs=True,
        )
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["task given in Python"] * 2 + ["epochs"]


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({"trials": 0}, ["trials: must be at least 1 (got 0)"]),
        ({"trials": -1}, ["trials: must be at least 1 (got -1)"]),
        ({"trials": True}, ["trials: must be a whole number (got True)"]),
        ({"trials": 1.5}, ["trials: must be a whole number (got 1.5)"]),
        (
            {"timeout_s": "2h", "executor": "dask", "verify": 3},
            [
                "timeout_s: must be a number above 0 (got '2h')",
                "verify: must be VerifyOptions (got 3)",
                "executor: must be ray or inline (got 'dask')",
            ],
        ),
    ],
)
def test_arguments_of_run_are_refused_before_the_storage_is_touched(
    tmp_path: Path, arguments: dict[str, object], problems: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        study(tmp_path).run(**arguments)  # type: ignore[arg-type]
    assert list(caught.value.problems) == problems
    assert list(tmp_path.iterdir()) == []


def test_what_is_told_must_be_numbers(tmp_path: Path) -> None:
    with study(tmp_path) as ours:
        trial = ours.ask()
        trial.build()
        for told in (0.5, {"quality": "good"}):
            with pytest.raises(TaskError, match=r"Study\.tell"):
                ours.tell(trial, told)  # type: ignore[arg-type]
        assert ours.tell(trial, {"quality": 1}).outcome is Outcome.OK
