import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_it_times_the_range_in_pairs_with_the_present_plan(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--json", "--set", "latency={batch_size: 2, threads: 1}")
    document = json.loads(out)
    assert code == 0, err
    assert document["plans"].keys() == {"smallest", "rule", "present", "largest"}
    assert document["reference_ms"] == document["plans"]["present"]["latency"]["median_ms"]
    for timed in document["plans"].values():
        low, high = timed["latency"]["ratio_interval"]
        assert low <= timed["latency"]["ratio"] <= high
        assert timed["measured"]["parameters"] == 4465
    assert (document["plans"]["largest"]["latency"]["protocol"]["batch_size"]) == 2
    assert not (study.parent / "out").exists()


def test_plans_of_the_persons_own(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--plan", "*=2", "--plan", "*.0.*=8", "--set", "latency.batch_size=2")
    assert code == 0, err
    rows = [line.split() for line in out.splitlines()]
    assert [row[:2] for row in rows[2:5]] == [["*=2", "2-2"], ["*.0.*=8", "8-4"], ["present", "4-4"]]
    assert rows[2][-1] == "4,465"
    assert "batch of 2, forward pass" in out
    assert "profile: " in err


def test_plans_that_are_none_are_all_named(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--plan", "decoder.*=2 *=3")
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert "'decoder.*' matches no site" in err
    assert "3 heads do not divide the width 16" in err


def test_it_explains_its_columns_and_shows_the_studys_limits(run: Run, study: Path) -> None:
    limits = "constraints={latency_ms: {max_ratio: 1.5, of: present}, parameters: {max: 2e6}}"
    code, out, err = run("measure", study, "--set", limits, "--set", "latency={batch_size: 1, threads: 1}")
    assert code == 0, err
    lines = out.splitlines()[-4:]
    assert lines[0].endswith(" (cpu), 1 thread, float32, batch of 1, forward pass")
    assert lines[1] == (
        "× present: each plan against the present one, timed in turn with it, which holds on a busy machine; ms is "
        "that times the present plan's median. p90: nine of ten passes were faster, as timed now"
    )
    most = re.fullmatch("the study's limit: latency_ms ≤ 1.5 × present, which is (.*) here", lines[2])
    assert most is not None
    present = next(line.split() for line in out.splitlines() if line.startswith("present"))
    assert float(most[1]) == pytest.approx(1.5 * float(present[6]), rel=0.2)  # whose own ratio is near 1
    assert lines[3] == "the study's limit: parameters ≤ 2,000,000 weights"


def test_sizes_that_fit_nowhere(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--set", "latency.batch_size=2000000000")
    assert (code, out) == (2, "")
    assert "can't allocate memory: 640.0 GB asked at once" in err
