import pickle

import pytest

from headtune.heads.plan import HeadCount, HeadPlan
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.messages import Measurement, TrialRequest, TrialResult
from headtune.trial.outcome import Outcome

REQUEST = TrialRequest(
    number=3,
    kind="search",
    label="",
    plan=HeadPlan.of({"layers.0.attn": HeadCount(4, 4, 16), "layers.1.attn": HeadCount(8, 2, 8)}),
    params={"lr": 1e-3, "activation": "relu"},
    repeat=0,
    seed=11,
    epochs=5,
    key="0123abcd",
)
PROFILE = LatencyProfile(
    protocol=LatencyProtocol(device="cpu", threads=1),
    median_ms=2.0,
    p90_ms=2.5,
    interval_ms=(1.9, 2.1),
    ratio=1.1,
    ratio_interval=(1.05, 1.15),
    reference_median_ms=1.8,
    samples=30,
    settled=True,
    contended=False,
    device_name="a CPU",
    versions={"torch": "2"},
)


@pytest.mark.parametrize(
    ("violations", "feasible"),
    [
        ({}, True),
        ({"latency_ms": -0.5, "parameters": 0.0}, True),
        ({"latency_ms": -0.5, "parameters": 1.0}, False),
        ({"latency_ms": 1e-9}, False),
    ],
)
def test_a_plan_is_feasible_when_no_constraint_is_broken(violations: dict[str, float], feasible: bool) -> None:
    assert Measurement(metrics={}, latency=None, violations=violations).feasible is feasible


def test_what_is_broken_is_told_with_what_came_and_what_is_allowed() -> None:
    upper = 1.98 * PROFILE.ratio_interval[1] / PROFILE.ratio
    found = Measurement(
        metrics={"latency_ms": 1.98, "parameters": 5000.0},
        latency=PROFILE,
        violations={"latency_ms": upper - 1.5, "parameters": 1000.0, "head_dim": 4.0, "peak_memory_mb": -1.0},
    )
    assert found.broken == (
        f"breaks latency_ms: {upper:.4g}, the upper end of its interval, where 1.5 is allowed and parameters: 5000 "
        "where 4000 is allowed and head_dim by 4; known before training, so no epoch was paid"
    )


@pytest.mark.parametrize(
    "message",
    [
        REQUEST,
        Measurement(metrics={"latency_ms": 1.98}, latency=PROFILE, violations={"latency_ms": -0.02}),
        TrialResult(
            outcome=Outcome.OK,
            message="trained to the end",
            metrics={"val_accuracy": 0.9},
            test_metrics={"test_accuracy": 0.88},
            seconds={"train": 1.5},
        ),
    ],
)
def test_messages_cross_processes_whole(message: object) -> None:
    assert pickle.loads(pickle.dumps(message)) == message


def test_a_result_without_numbers() -> None:
    result = TrialResult(outcome=Outcome.CRASHED, message="raised an error")
    assert (result.metrics, result.test_metrics, result.seconds, result.detail) == ({}, {}, {}, "")


def test_messages_are_not_changed_on_the_way() -> None:
    with pytest.raises(AttributeError):
        REQUEST.seed = 12  # type: ignore[misc]
