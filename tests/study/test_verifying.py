"""Finalists retrained with fresh seeds, and what happens where their trainings fail."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headtune.errors import TrialError
from headtune.heads import HeadDimConstraint, Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.search.seeds import trial_seed
from headtune.study import Finalist, StudyRecord, StudySpec, VerifyOptions, read, search
from headtune.timing import LatencyProtocol
from headtune.trial import ChoiceParam, FloatParam, Outcome, TrialRecord

MakeSpec = Callable[..., StudySpec]

FIRST = trial_seed(0, 0)
EVERY = {str(heads): "raise" for heads in (1, 2, 4, 8, 16)}
QUALITY = Objective(metric="quality", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
SMALL = SpaceOptions(hold="width", heads=(2, 4))


def faulty(make_spec: MakeSpec, bad: dict[str, str], *spared: int, seeds: int = 2, **changes: object) -> StudySpec:
    """A study whose trainings fail with every seed but the search's and the *spared* ones."""
    args = {"bad": bad, "spared": [FIRST, *spared]}
    changes = {
        "space": SMALL,
        "trials": 6,
        "epochs": 1,
        "verify": VerifyOptions(top=4, seeds=seeds, max_seeds=seeds or None),
    } | changes
    return make_spec(args, **changes)


def finalist_labels(record: StudyRecord) -> list[str]:
    return [finalist.plan.label for finalist in record.finalists]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (
            "raise",
            r"raised an error or lost its process: ValueError: the data is broken \(.*tiny\.py, line \d+, in fail\)",
        ),
        (
            "stop",
            "ended itself: the task raised StopTrial, which the study had not asked for, so it has no final metrics",
        ),
    ],
)
def test_where_every_retraining_fails_the_study_fails_and_the_same_study_tries_them_again(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, fault: str, reason: str
) -> None:
    spec = faulty(make_spec, dict.fromkeys(EVERY, fault))
    for _ in range(2):
        with pytest.raises(TrialError) as caught:
            search(spec)
        assert caught.value.exit_code == 1
        assert re.fullmatch(
            r"verify: the plans that may be recommended were trained again, and none of these \d+ trainings came to "
            rf"its end; the first: {reason}; mend the cause and run the same study again: the search is kept, the "
            r"trainings that failed are tried again",
            str(caught.value),
        )
    failed = read(spec)
    assert (failed.verdict, failed.finalists) == (None, ())
    monkeypatch.setenv("TINY_MENDED", "1")
    record = search(spec)
    assert record.trials == failed.trials  # the search was kept
    assert record.verdict is not None
    assert record.verdict.recommended is not None
    assert all(finalist.seeds == 2 for finalist in record.finalists)
    assert not any("training" in finding for finding in record.verdict.findings)
    counts = [sum(trial.outcome is Outcome.OK for trial in one.verify_trials) for one in (failed, record)]
    assert counts == [0, 2 * len(record.finalists)]


def test_the_log_is_named_where_there_is_one(make_spec: MakeSpec, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    log = tmp_path / "out" / "headtune.log"
    log.touch()
    with pytest.raises(TrialError, match=re.escape(f"each traceback is in {log}; mend the cause")):
        search(faulty(make_spec, EVERY))


@pytest.mark.slow
def test_an_interrupted_second_try_goes_on_with_the_rest(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = faulty(make_spec, EVERY)
    with pytest.raises(TrialError):
        search(spec)
    with monkeypatch.context() as patch:
        patch.setattr("headtune.study.verifying.ReplayBroker.finish", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            search(spec)
    monkeypatch.setenv("TINY_MENDED", "1")
    assert all(finalist.seeds == 2 for finalist in search(spec).finalists)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_finalist_that_lost_a_seed_is_judged_by_the_rest(make_spec: MakeSpec) -> None:
    record = search(faulty(make_spec, EVERY, trial_seed(0, 2)))
    assert record.verdict is not None
    assert {finalist.seeds for finalist in record.finalists} == {1}
    assert len(record.finalists) >= 2
    for finalist, told in zip(record.finalists, record.verdict.findings, strict=False):
        assert told.startswith(
            f"{finalist.plan.label} is judged by 1 of 2 trainings: the others did not come to their end; the first of "
            "these: raised an error or lost its process: ValueError: the data is broken ("
        )


@pytest.mark.slow
def test_a_finalist_without_any_training_is_left_out_and_that_is_said(make_spec: MakeSpec) -> None:
    spec = faulty(make_spec, {"4": "memory"}, space=SpaceOptions(hold="head_dim"))
    record = search(spec)
    assert record.verdict is not None
    assert record.verdict.recommended is not None
    assert all(label[0] != "4" for label in finalist_labels(record))
    assert any(
        finding.startswith(
            "4-4 is not judged: none of its 2 trainings came to its end; the first: ran out of memory: MemoryError: no "
        )
        for finding in record.verdict.findings
    )
    assert search(spec) == record  # it is finished


def test_plans_that_may_not_be_recommended_do_not_hide_that_all_others_failed(make_spec: MakeSpec) -> None:
    space = SpaceOptions(hold="width", heads=(1, 2), head_dim=HeadDimConstraint(min=8))  # the present 4-4 lies outside
    spec = faulty(make_spec, {"1": "raise", "2": "raise"}, space=space)
    with pytest.raises(TrialError, match=r"none of these .* trainings came to its end"):
        search(spec)


def test_without_seeds_the_searchs_own_training_judges(make_spec: MakeSpec) -> None:
    record = search(faulty(make_spec, EVERY, seeds=0))
    assert record.verify_trials == ()
    by_plan = {trial.plan: trial.metrics["quality"] for trial in record.trials}
    for finalist in record.finalists:
        assert finalist.quality == {"quality": (by_plan[finalist.plan],)}


def test_finalists_that_differ_in_params_of_the_training_alone_are_timed_once(make_spec: MakeSpec) -> None:
    record = search(
        make_spec(
            trials=14,
            epochs=1,
            sampler="random",
            space=SpaceOptions(hold="width", heads=(2, 4), tie="uniform"),
            objectives=(QUALITY, LATENCY),
            params={"lr": FloatParam(low=0.01, high=0.1), "dropout": ChoiceParam(choices=(0.0, 0.1))},
            latency=LatencyProtocol(batch_size=2, max_seconds=0.05),
            verify=VerifyOptions(top=6, seeds=0),
        )
    )

    def models(rows: Sequence[TrialRecord] | Sequence[Finalist]) -> list[tuple[object, object]]:
        return [(row.plan, row.params["dropout"]) for row in rows]  # the model is built with dropout, not with lr

    for rows in (record.trials, record.finalists):
        timed = {(model, str(row.latency)) for model, row in zip(models(rows), rows, strict=True)}
        assert len(timed) == len(set(models(rows)))
    assert len(set(models(record.trials))) < len(record.trials)
    feasible = {(model, trial.feasible) for model, trial in zip(models(record.trials), record.trials, strict=True)}
    assert len(feasible) == len(set(models(record.trials)))


def test_the_present_plan_is_exactly_as_fast_as_itself(make_spec: MakeSpec) -> None:
    record = search(
        make_spec(
            trials=3,
            epochs=1,
            objectives=(QUALITY, LATENCY),
            limits=(Limit(metric="latency_ms", max_ratio=1.0, of="present"),),
            latency=LatencyProtocol(batch_size=2, max_seconds=0.05),
            verify=VerifyOptions(top=1, seeds=0),
        )
    )
    assert record.latency_range is not None
    assert record.limits == {"latency_ms": record.latency_range.reference_ms}
    present = next(trial for trial in record.trials if trial.label == "present")
    finalist = next(one for one in record.finalists if "present" in one.labels)
    assert present.metrics["latency_ms"] == finalist.measured["latency_ms"] == record.latency_range.reference_ms
    assert present.violations == {"latency_ms": 0.0}
    assert finalist.feasible
