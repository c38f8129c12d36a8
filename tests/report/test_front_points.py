from collections.abc import Callable
from dataclasses import replace

from headtune.pareto import Objective
from headtune.report.front_points import Axis, Standing, dots, picture_axes, quality_objective
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]
ACCURACY = Objective(metric="val_accuracy", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
PARAMETERS = Objective(metric="parameters", direction="minimize")
ACROSS, UP = Axis(objective=LATENCY), Axis(objective=ACCURACY)


def axes_of(record: StudyRecord, *objectives: Objective) -> list[tuple[str, str]]:
    return [(x.metric, y.metric) for x, y in picture_axes(replace(record, objectives=objectives))]


def test_quality_stands_up_and_each_other_objective_lies_across(record: StudyRecord) -> None:
    assert axes_of(record, ACCURACY, LATENCY) == [("latency_ms", "val_accuracy")]
    assert axes_of(record, LATENCY, ACCURACY) == [("latency_ms", "val_accuracy")]
    assert axes_of(record, ACCURACY, LATENCY, PARAMETERS) == [
        ("latency_ms", "val_accuracy"),
        ("parameters", "val_accuracy"),
    ]
    assert axes_of(record, LATENCY, PARAMETERS) == [("parameters", "latency_ms")]


def test_one_objective_is_shown_beside_something_that_is_none(make_record: MakeRecord) -> None:
    ((x, y),) = picture_axes(make_record(objectives=(ACCURACY,)))
    assert (x.metric, x.is_objective, y.is_objective) == ("latency_ms", False, True)
    ((x, _),) = picture_axes(make_record(objectives=(ACCURACY,), limit_ms=None))
    assert (x.metric, x.is_objective) == ("parameters", False)
    ((x, y),) = picture_axes(make_record(objectives=(PARAMETERS,), verified=False, limit_ms=None))
    assert (x.metric, y.metric) == ("latency_ms", "parameters")


def test_the_quality_objective_is_the_tasks_first(record: StudyRecord) -> None:
    assert quality_objective(record) == ACCURACY
    assert quality_objective(replace(record, objectives=(LATENCY, PARAMETERS))) is None


def only(record: StudyRecord, **change: object) -> StudyRecord:
    return replace(record, trials=(replace(record.trials[0], **change),))  # type: ignore[arg-type]


def test_a_finished_trial_lies_at_its_metrics(record: StudyRecord) -> None:
    trial = record.trials[0]
    (dot,) = dots(only(record), ACROSS, UP)
    assert (dot.x, dot.y, dot.standing) == (
        trial.metrics["latency_ms"],
        trial.metrics["val_accuracy"],
        Standing.FINISHED,
    )


def test_a_stopped_trial_lies_at_its_last_report(record: StudyRecord) -> None:
    stopped = only(record, outcome=Outcome.STOPPED, metrics={"latency_ms": 2.0}, curve=((1, 0.5), (2, 0.6)))
    (dot,) = dots(stopped, ACROSS, UP)
    assert (dot.x, dot.y, dot.standing) == (2.0, 0.6, Standing.STOPPED)
    assert dots(only(stopped, outcome=Outcome.STOPPED, curve=()), ACROSS, UP) == ()


def test_what_breaks_a_constraint_is_told_apart(record: StudyRecord) -> None:
    over = {"latency_ms": 0.5}
    (trained,) = dots(only(record, violations=over), ACROSS, UP)
    assert trained.standing is Standing.INFEASIBLE
    known = only(record, outcome=Outcome.INFEASIBLE, violations=over, metrics={"latency_ms": 9.0}, curve=())
    (untrained,) = dots(known, ACROSS, UP)
    assert (untrained.standing, untrained.x, untrained.y) == (Standing.UNTRAINED, 9.0, None)


def test_failed_running_and_unmeasured_trials_have_no_place(record: StudyRecord) -> None:
    for outcome in (Outcome.CRASHED, Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, None):
        assert dots(only(record, outcome=outcome), ACROSS, UP) == ()
    assert dots(only(record, metrics={"val_accuracy": 0.9}), ACROSS, UP) == ()
    assert dots(only(record, metrics={"val_accuracy": 0.9, "latency_ms": float("inf")}), ACROSS, UP) == ()


def test_only_the_curves_metric_is_filled_in_from_the_curve(record: StudyRecord) -> None:
    stopped = only(record, outcome=Outcome.STOPPED, metrics={"latency_ms": 2.0}, curve=((1, 0.5),))
    assert dots(stopped, ACROSS, Axis(objective=Objective(metric="f1", direction="maximize"))) == ()
