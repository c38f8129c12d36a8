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
            "latency.seq_len",
            "must list 128, the length that latency_ms@128 names (got none)",
        ),
        (
            {
                "objectives": [QUALITY, {"metric": "latency_ms@256", "direction": "minimize"}],
                "latency": {"seq_len": [128, 512]},
            },
            "latency.seq_len",
            "must list 256, the length that latency_ms@256 names (got 128, 512)",
        ),
        (
            {"constraints": {"latency_ms@64": {"max": 3}}, "latency": {"seq_len": 128}},
            "latency.seq_len",
            "must list 64, the length that latency_ms@64 names (got 128)",
        ),
        (
            {
                "objectives": [
                    QUALITY,
                    {"metric": "latency_ms", "direction": "minimize"},
                    {"metric": "latency_ms@512", "direction": "minimize"},
                ],
                "latency": {"seq_len": [128, 512]},
            },
            "latency.seq_len",
            "makes latency_ms and latency_ms@512 one objective, since 512 is the longest; keep one",
        ),
        (
            {"objectives": [QUALITY, {"metric": "latency_ms@0128", "direction": "minimize"}]},
            "objectives.1.metric",
            "must name a sequence length as in latency_ms@128 (got 'latency_ms@0128')",
        ),
        (
            {"objectives": [QUALITY, {"metric": "parameters@128", "direction": "minimize"}]},
            "objectives.1.metric",
            "parameters does not depend on the sequence length; write parameters",
        ),
        (
            {"constraints": {"latency_ms@": {"max": 3}}},
            "constraints.latency_ms@",
            "must name a sequence length as in latency_ms@128 (got 'latency_ms@')",
        ),
        (
            {"constraints": {"latency_ms@128": {"max": 0}}, "latency": {"seq_len": [128, 512]}},
            "constraints.latency_ms@128",
            "max is 0; it must be a positive number",
        ),
        (
            {"constraints": {"latency_ms@128": {"most": 3}}, "latency": {"seq_len": [128, 512]}},
            "constraints.latency_ms@128.most",
            "is not a known key; known: max, max_ratio, of",
        ),
        (
            {"constraints": {"at_lengths": {}}},
            "constraints.at_lengths",
            "is not a known key; known: head_dim, latency_ms, parameters, peak_memory_mb",
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


def test_several_sequence_lengths_may_each_be_wanted_and_limited(parse: Parse) -> None:
    file = parse(
        objectives=[QUALITY, {"metric": "latency_ms@128", "direction": "minimize"}],
        constraints={"latency_ms@128": {"max": 2}, "latency_ms@512": {"max_ratio": 1.5, "of": "present"}},
        latency={"seq_len": [128, 512]},
    )
    assert file.objectives[1].build().unit == "ms"
    assert file.constraints.build() == (
        Limit(metric="latency_ms@128", max=2),
        Limit(metric="latency_ms@512", max_ratio=1.5, of="present"),
    )
    assert file.latency.lengths == [128, 512]


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
