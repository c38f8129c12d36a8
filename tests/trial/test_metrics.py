"""What a person's functions report, as metrics or as words."""

from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
import torch

from headtune.errors import MetricError, TaskError
from headtune.trial.metrics import reported_metrics, returned_metrics

CONTRACT = 'must return a mapping of metric names to numbers, such as {"val_accuracy": 0.91}; it returned'
FUNCTIONS: tuple[Literal["evaluate", "test"], ...] = ("evaluate", "test")


@pytest.mark.parametrize(
    "value",
    [2, 2.0, Fraction(4, 2), np.float32(2), np.int64(2), np.array(2.0), torch.tensor(2), torch.tensor(2.0).bfloat16()],
)
def test_whatever_is_one_real_number_becomes_a_float(value: object) -> None:
    for metrics in (reported_metrics({"loss": value}), returned_metrics("test", {"loss": value})):
        assert metrics == {"loss": 2.0}
        assert type(metrics["loss"]) is float


@pytest.mark.parametrize(("value", "number"), [(True, 1.0), (np.bool_(False), 0.0)])
def test_a_truth_value_counts(value: object, number: float) -> None:
    assert returned_metrics("evaluate", {"solved": value}) == {"solved": number}


def test_what_is_not_finite_passes_since_the_run_judges_it() -> None:
    values = returned_metrics("test", {"a": float("inf"), "b": torch.tensor(float("nan"))})
    assert values["a"] == float("inf")
    assert np.isnan(values["b"])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "None"),
        (0.5, "0.5 (float)"),
        ([0.5], "an object of type list"),
        (object(), "an object of type object"),
        (torch.tensor(0.5), "a Tensor of shape () and type torch.float32"),
        (np.zeros(3), "a ndarray of shape (3,) and type float64"),
        ("x" * 100, f"'{'x' * 39}… (str)"),
        (10**400, "an object of type int"),
    ],
)
def test_what_is_no_mapping_names_the_contract(
    function: Literal["evaluate", "test"], returned: object, said: str
) -> None:
    with pytest.raises(MetricError) as caught:
        returned_metrics(function, returned)
    assert str(caught.value) == f"Task.{function} {CONTRACT} {said}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("good", "'good' (str)"),
        (None, "None"),
        (1j, "1j (complex)"),
        (10**400, "an object of type int"),
        (torch.zeros(1), "a Tensor of shape (1,) and type torch.float32"),
        ({"nested": 1.0}, "an object of type dict"),
    ],
)
def test_what_is_no_number_is_named_with_its_metric(value: object, said: str) -> None:
    with pytest.raises(MetricError) as caught:
        returned_metrics("test", {"fine": 1.0, "score": value})
    assert str(caught.value) == f"Task.test: score must be a number or a 0-d tensor, got {said}"


def test_every_wrong_entry_is_named_at_once() -> None:
    with pytest.raises(MetricError) as caught:
        returned_metrics(
            "evaluate", {1: 0.5, "": 0.5, "re\x1bd": 0.5, "a": "x", "parameters": 7, "latency_ms@128": 2.0}
        )
    assert caught.value.problems == (
        "Task.evaluate: a metric is named by a text that can be printed, got 1 (int)",
        "Task.evaluate: a metric is named by a text that can be printed, got '' (str)",
        "Task.evaluate: a metric is named by a text that can be printed, got 're\\x1bd' (str)",
        "Task.evaluate: a must be a number or a 0-d tensor, got 'x' (str)",
        "Task.evaluate: headtune measures parameters itself; report it under another name, such as my_parameters",
        "Task.evaluate: headtune measures latency_ms@128 itself; report it under another name, such as my_latency_ms",
    )


@pytest.mark.parametrize("name", ["latency_ms", "parameters", "peak_memory_mb"])
def test_a_name_of_headtunes_own_measures_is_refused_and_one_beside_it_is_not(name: str) -> None:
    with pytest.raises(MetricError, match=f"^run.report: headtune measures {name} itself"):
        reported_metrics({name: 1.0})
    assert reported_metrics({f"my_{name}": 1.0, "latency_p90_ms": 2.0}) == {f"my_{name}": 1.0, "latency_p90_ms": 2.0}


def test_an_empty_report_is_refused_and_an_empty_evaluation_is_not() -> None:
    with pytest.raises(TaskError, match=r"^run\.report\(\) was given no metric"):
        reported_metrics({})
    with pytest.raises(MetricError, match=r"^report\(\) was given no metric; name one, such as val_accuracy=…$"):
        reported_metrics({}, "report")
    assert returned_metrics("evaluate", {}) == {}
