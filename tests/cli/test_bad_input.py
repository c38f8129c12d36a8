"""A generated battery: whatever a study file holds, a verb ends with sentences and an exit code, at once."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Run = Callable[..., tuple[int, str, str]]

VALUES = (
    *(
        "",
        "0",
        "-1",
        "3",
        "12",
        "1e1",
        "x",
        "true",
        "[]",
        "[0]",
        "[2, x]",
        "[3]",
        "{}",
        "{a: 1}",
        "{min: 3}",
        "{stages: 9}",
    ),
    *(
        "{heads: [3]}",
        "{min: 5, max: 2}",
        "cuda:7",
        "sqlite:///x.db",
        "../nowhere.py:task",
        "os:path",
        "a.b.c:d",
        "ramp",
        "cuda",
        "1.0",
        ".nan",
        "1e999",
        "010",
        "99999999999999999999",
        "1000000000000000",
        "{1: 2}",
        "{null: 2}",
        "[&a [*a]]",
        '"\\0"',
        "1\nfoo: 2",
        "1 # all",
        "~nobody_at_all/x",
        "x" * 300,
        "postgresql://ann:secret@nowhere.invalid/db",
        "{a: postgresql://ann:secret@nowhere.invalid/db}",
        f"{'[' * 60}{']' * 60}",
    ),
)

RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


def ends_well(run: Run, path: Path, *arguments: str) -> None:
    began = time.perf_counter()
    code, out, err = run("check", path, *arguments)
    seconds = time.perf_counter() - began
    assert "Traceback" not in out + err
    assert "secret" not in out + err
    assert "failed in a way it should not" not in err, err
    assert code in (0, 2), (code, err)
    if code == 2:
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert errors
        assert out == ""
        assert seconds < 5 or "check: " in err, "no model was built, and yet it took long"


@settings(max_examples=60, **RELAXED)
@given(data=st.data())
def test_any_damage_to_a_study_that_runs(run: Run, study: Path, data: st.DataObject) -> None:
    text = study.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 10))
        new = data.draw(
            st.sampled_from(
                ["", " ", "\t", "\n", ":", "- ", "[", "}", "'", "#", "&a ", "*a", "<<: ", "0", "-1", ".nan", "null"]
            )
        )
        text = text[:start] + new + text[start + cut :]
    damaged = study.with_name("damaged.yaml")
    damaged.write_text(text)
    ends_well(run, damaged)


@settings(max_examples=60, **RELAXED)
@given(
    key=st.sampled_from(
        [
            "task",
            "task_args",
            "task_args.layers",
            "task_args.other",
            "seed",
            "space.heads",
            "space.tie",
            "space.sites",
            'space.sites."*"',
            "space.kv_heads",
            "space.head_dims",
            "space.params",
            "constraints",
            "constraints.head_dim",
            "latency.seq_len",
            "latency.batch_size",
            "latency.device",
            "version",
            "name",
            "search.timeout",
            "search.trails",
            "storge",
            "objectives.0.metric",
            "objectives.7",
            "name.first",
            "a..b",
            "resources",
            "resources.gpus",
            "output",
            "storage",
        ]
    ),
    value=st.sampled_from(VALUES),
)
def test_any_setting_of_a_study_that_runs(run: Run, study: Path, key: str, value: str) -> None:
    ends_well(run, study, "--set", f"{key}={value}")


@pytest.mark.parametrize("name", ["", ".", "/", "/dev/null", "~", "x" * 5000, "-"])
def test_what_is_no_study_file(run: Run, name: str) -> None:
    began = time.perf_counter()
    code, out, err = run("check", name)
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert err.startswith("error: ")
    assert time.perf_counter() - began < 5
