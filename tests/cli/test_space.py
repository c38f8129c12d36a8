import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_it_counts_the_plans_and_shows_choices_baselines_and_constraints(run: Run, study: Path) -> None:
    code, out, err = run(
        "space",
        study,
        "--set",
        "constraints={head_dim: {min: 2}, parameters: {max: 1e6}, latency_ms: {max_ratio: 1.5, of: present}}",
        "--set",
        "space.params={lr: {low: 1e-3, high: 0.1, log: true}, opt: [adam, sgd]}",
    )
    assert (code, err.splitlines()[0].startswith("check: ")) == (0, True)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "16 plans under hold: width, weights: fresh"  # head_dim >= 2: 1, 2, 4 or 8 heads at two sites
    assert "encoder.layers.0.self_attn 1 2 4 8 4" in lines
    assert "present 4-4 yes" in lines
    assert "rule, rule-mixed, smallest 1-1 yes" in lines
    assert "largest 8-8 yes" in lines
    assert "param lr: 0.001 to 0.1, on a log scale; default 0.01" in lines
    assert "param opt: adam, sgd; default adam" in lines
    assert lines[-1] == "constraints: head_dim ≥ 2; latency_ms ≤ 1.5 × present; parameters ≤ 1,000,000 weights"


@pytest.mark.parametrize(
    ("setting", "plans"),
    [
        ("space.heads=auto", 25),
        ("space.heads=[2, 4]", 4),
        ("space.tie=uniform", 5),
        ("space.heads={min: 2, max: 8}", 9),
        ("space.hold=head_dim", 16),
        ("task_args={layers: 4}", 625),
    ],
)
def test_the_number_of_plans(run: Run, study: Path, setting: str, plans: int) -> None:
    code, out, _ = run("space", study, "--json", "--set", setting)
    assert (code, json.loads(out)["plans"]) == (0, plans)


def test_json(run: Run, study: Path) -> None:
    document = json.loads(run("space", study, "--json", "--set", "space.heads=[2, 8]")[1])
    assert document["dimensions"]["encoder.layers.1.self_attn"] == ["2", "8"]
    assert document["baselines"]["present"] == {
        "plan": {"encoder.layers.0.self_attn": [4, 4, 4], "encoder.layers.1.self_attn": [4, 4, 4]},
        "aliases": [],
        "in_space": False,
    }
    assert (document["hold"], document["weights"], document["constraints"]) == ("width", "fresh", [])


def test_an_empty_space_is_refused(run: Run, study: Path) -> None:
    code, out, err = run("space", study, "--set", "space.heads=[3]")
    assert (code, out) == (2, "")
    assert re.search("^error: .*3.*16", err, re.MULTILINE)
