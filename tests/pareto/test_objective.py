import pytest

from headtune.pareto.objective import Objective


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
