from collections.abc import Callable

import pytest

from headtune.config.schema import StudyFile
from headtune.heads import HeadDimConstraint, Limit
from headtune.pareto import Objective

Problems = Callable[..., dict[str, str]]
Parse = Callable[..., StudyFile]

QUALITY = {"metric": "val_loss", "direction": "minimize"}


@pytest.mark.parametrize(
    ("keys", "where", "sentence"),
    [
        (
            {"objectives": [{"metric": "val_loss", "direction": "minimise"}]},
            "objectives.0.direction",
            "must be maximize or minimize (got 'minimise'); did you mean minimize?",
        ),
        (
            {"objectives": [QUALITY, {"metric": "latency_ms", "direction": "maximize"}]},
            "objectives.1.direction",
            "must be minimize: of latency_ms, less is better",
        ),
        (
            {"objectives": [QUALITY, {"metric": "latency_ms@128", "direction": "minimize"}]},
            "objectives.1.metric",
            "latency_ms@128: several sequence lengths are not available yet; write latency_ms",
        ),
        (
            {"objectives": [{"metric": "val acc", "direction": "maximize"}]},
            "objectives.0.metric",
            "must be a name as in Python code, as run.report(name=...) takes it (got 'val acc')",
        ),
        (
            {"constraints": {"latency_ms": {}}},
            "constraints.latency_ms",
            "give either max or max_ratio",
        ),
        (
            {"constraints": {"latency_ms": {"max": 0}}},
            "constraints.latency_ms",
            "max is 0; it must be a positive number",
        ),
        (
            {"constraints": {"parameters": {"max_ratio": 0.5}}},
            "constraints.parameters",
            "max_ratio needs what it is a ratio of; add of: present or of: rule",
        ),
        (
            {"constraints": {"latency": {"max": 3}}},
            "constraints.latency",
            "is not a known key; did you mean latency_ms?",
        ),
        (
            {"constraints": {"head_dim": {}}},
            "constraints.head_dim",
            "nothing is constrained; give min, max or multiple_of",
        ),
        (
            {"constraints": {"head_dim": {"min": 8, "max": 4}}},
            "constraints.head_dim",
            "min 8 is more than max 4; swap them",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_key_and_the_way_out(
    problems: Problems, keys: dict[str, object], where: str, sentence: str
) -> None:
    assert problems(**keys) == {where: sentence}


def test_objectives_and_limits_as_values(parse: Parse) -> None:
    file = parse(
        objectives=[QUALITY, {"metric": "latency_ms", "direction": "minimize"}],
        constraints={
            "head_dim": {"min": 4, "max": 64, "multiple_of": 4},
            "latency_ms": {"max_ratio": 1.5, "of": "rule"},
            "peak_memory_mb": {"max": 8000},
        },
    )
    assert [objective.build() for objective in file.objectives] == [
        Objective(metric="val_loss", direction="minimize"),
        Objective(metric="latency_ms", direction="minimize"),
    ]
    assert file.constraints.build() == (
        Limit(metric="latency_ms", max_ratio=1.5, of="rule"),
        Limit(metric="peak_memory_mb", max=8000),
    )
    assert file.constraints.head_dim is not None
    assert file.constraints.head_dim.build() == HeadDimConstraint(min=4, max=64, multiple_of=4)
