import pytest

from headtune.errors import InputError
from headtune.pareto.objective import Objective, distinct, reportable


@pytest.mark.parametrize(
    ("metric", "unit", "measured"),
    [
        ("latency_ms", "ms", True),
        ("latency_ms@128", "ms", True),
        ("parameters", "weights", True),
        ("peak_memory_mb", "MB", True),
        ("val_accuracy", "", False),
        ("my_latency_ms", "", False),
    ],
)
def test_measured_metrics_have_units(metric: str, unit: str, measured: bool) -> None:
    objective = Objective(metric=metric, direction="minimize")
    assert (objective.unit, objective.measured) == (unit, measured)


def test_a_loss_is_lower_where_the_value_is_better() -> None:
    accuracy = Objective(metric="val_accuracy", direction="maximize")
    latency = Objective(metric="latency_ms", direction="minimize")
    assert (accuracy.loss(0.9), latency.loss(3.0)) == (-0.9, 3.0)
    assert accuracy.better(0.9, 0.8)
    assert not accuracy.better(0.8, 0.8)
    assert latency.better(1.0, 2.0)
    assert not latency.better(2.0, 1.0)


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ((3, "up"), ("metric: must be text (got 3)", "direction: must be maximize or minimize (got 'up')")),
        (("", "maximize"), ("metric: must not be empty (got '')",)),
        (("latency_ms", "maximize"), ("direction: must be minimize: of latency_ms, less is better",)),
    ],
)
def test_what_is_no_objective_is_refused(values: tuple[object, object], problems: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        Objective(metric=values[0], direction=values[1])  # type: ignore[arg-type]
    assert caught.value.problems == problems


@pytest.mark.parametrize("metric", ["val_acc", "latency_ms", "größe"])
def test_a_name_can_be_a_metric_of_a_study(metric: str) -> None:
    assert reportable(metric) == ""


@pytest.mark.parametrize("metric", ["val acc", "", 3, "a@8", "latency_ms@8"])
def test_what_is_no_name_cannot(metric: object) -> None:
    assert reportable(metric)


def test_objectives_differ_and_one_at_least_is_the_tasks_own() -> None:
    assert distinct(["acc", "latency_ms", "f1"]) == []
    assert distinct(["acc", "f1", "acc"]) == [((2, "metric"), "acc is an objective already; keep one")]
    assert distinct(["latency_ms", "parameters"]) == [
        ((), "must name at least one metric that the task reports, beside what headtune measures")
    ]
