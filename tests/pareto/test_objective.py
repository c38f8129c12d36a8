import pytest

from headtune.errors import InputError
from headtune.pareto.objective import (
    Objective,
    distinct,
    is_latency,
    is_measured,
    length_of,
    limitable,
    named_lengths,
    reportable,
)


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


def test_a_metric_says_whose_it_is_and_which_length_it_names() -> None:
    metrics = ("latency_ms", "latency_ms@128", "parameters", "val_accuracy", "my_latency_ms")
    assert [is_measured(metric) for metric in metrics] == [True, True, True, False, False]
    assert [is_latency(metric) for metric in metrics] == [True, True, False, False, False]
    assert [length_of(metric) for metric in metrics] == [None, 128, None, None, None]


def test_what_is_known_before_training_can_be_limited() -> None:
    assert [limitable(metric) for metric in ("latency_ms", "latency_ms@128", "parameters")] == ["", "", ""]
    assert limitable("val_accuracy") == "must be latency_ms, parameters or peak_memory_mb"
    assert limitable("latency_ms@x") == "must name a sequence length as in latency_ms@128"
    assert limitable(3) == limitable("val_accuracy")


def test_every_length_that_is_named_is_timed_and_no_two_names_are_one_objective() -> None:
    assert named_lengths(["acc", "latency_ms@8", "latency_ms"], ["latency_ms@16", "parameters"], (8, 16)) == []
    assert named_lengths(["acc", "latency_ms@8"], [], (8,)) == []
    assert named_lengths(["latency_ms@8"], ["latency_ms@9"], (None,)) == [
        "must list 8, the length that latency_ms@8 names (got none)",
        "must list 9, the length that latency_ms@9 names (got none)",
    ]
    assert named_lengths(["latency_ms", "latency_ms@16"], [], (8, 16)) == [
        "makes latency_ms and latency_ms@16 one objective, since 16 is the longest; keep one"
    ]


@pytest.mark.parametrize("metric", ["val_acc", "latency_ms", "latency_ms@8", "größe"])
def test_a_name_can_be_a_metric_of_a_study(metric: str) -> None:
    assert reportable(metric) == ""


@pytest.mark.parametrize(
    "metric", ["val acc", "", 3, "a@8", "latency_ms@", "latency_ms@08", "latency_ms@-8", "parameters@8"]
)
def test_what_is_no_name_cannot(metric: object) -> None:
    assert reportable(metric)


def test_objectives_differ_and_one_at_least_is_the_tasks_own() -> None:
    assert distinct(["acc", "latency_ms", "f1"]) == []
    assert distinct(["acc", "f1", "acc"]) == [((2, "metric"), "acc is an objective already; keep one")]
    assert distinct(["latency_ms", "parameters"]) == [
        ((), "must name at least one metric that the task reports, beside what headtune measures")
    ]
