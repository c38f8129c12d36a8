import json
from collections.abc import Callable
from pathlib import Path

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
