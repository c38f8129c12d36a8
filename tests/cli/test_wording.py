import pytest

from headtune.cli.wording import duration, objective_title, value
from headtune.pareto import Objective


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.95704, "0.957"),
        (3.21456, "3.215"),
        (1204224, "1,204,224"),
        (-12345.6, "-12,346"),
        (9999.4, "9999"),
        (0, "0"),
        (1e-5, "1e-05"),
    ],
)
def test_numbers(number: float, text: str) -> None:
    assert value(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (40, "40 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (150, "2 min"),
        (3599, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (180000, "50 h 0 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_titles_point_to_the_better_side() -> None:
    assert objective_title(Objective(metric="val_accuracy", direction="maximize")) == "val_accuracy ↑"
    assert objective_title(Objective(metric="latency_ms", direction="minimize")) == "latency_ms ↓"
