"""What stays the same over all trials, and in which order violations are kept."""

import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from headtune.heads import HeadCount, HeadDimConstraint, HeadPlan
from headtune.pareto import Objective
from headtune.timing import LatencyProtocol
from headtune.trial import TaskReference, TrialSetup


def setup(**changes: Any) -> TrialSetup:
    values: dict[str, Any] = {
        "task": TaskReference(target="train.py:task", base=Path("/home/ann"), args={"data": "x"}),
        "sites": (),
        "hold": "width",
        "weights": "fresh",
        "objectives": (Objective(metric="val_accuracy", direction="maximize"),),
        "latency": LatencyProtocol(device="cpu", threads=2),
        "timed": {"latency_ms": None},
        "needs_memory": False,
        "present": HeadPlan.of({"attn": HeadCount(4, 4, 16)}),
    }
    return TrialSetup(**values | changes)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ()),
        ({"limits": {"parameters": 10.0, "latency_ms": 2.0}}, ("parameters", "latency_ms")),
        ({"limits": {"latency_ms": 2.0, "parameters": 10.0}}, ("latency_ms", "parameters")),
        ({"head_dim": HeadDimConstraint(min=8)}, ("head_dim",)),
        ({"limits": {"latency_ms": 2.0}, "head_dim": HeadDimConstraint(multiple_of=8)}, ("latency_ms", "head_dim")),
    ],
)
def test_constraints_have_a_fixed_order_limits_first(changes: dict[str, Any], names: tuple[str, ...]) -> None:
    assert setup(**changes).constraint_names == names


def test_a_setup_reaches_a_worker_whole() -> None:
    sent = setup(
        limits={"latency_ms": 2.0},
        head_dim=HeadDimConstraint(min=8),
        reference_ms={"latency_ms": 1.5},
        scratch=Path("/tmp/scratch"),
    )
    arrived = pickle.loads(pickle.dumps(sent))
    assert arrived == sent
    assert [getattr(arrived, field.name) for field in fields(arrived)] == [
        getattr(sent, field.name) for field in fields(sent)
    ]


def test_what_is_not_said_is_kept_nowhere_and_limits_nothing() -> None:
    plain = setup()
    assert (plain.limits, plain.head_dim, plain.reference_ms) == ({}, None, {})
    assert (plain.scratch, plain.models_dir, plain.lane_dir) == (None, None, None)
    assert (plain.device, plain.threads) == ("cpu", 1)


def test_a_setup_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        setup().threads = 4  # type: ignore[misc]
