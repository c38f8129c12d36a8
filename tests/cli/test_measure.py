import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

QUICK = ("--set", "latency={batch_size: 2, threads: 1, max_seconds: 0.1}")


def test_it_times_the_range_in_pairs_with_the_present_plan(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--json", *QUICK)
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


def test_it_tells_what_moves_latency(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, *QUICK)
    assert code == 0, err
    assert re.search(r"^encoder\.layers\.\*\.self_attn +2 +1 – 16 ", out, re.MULTILINE)
    assert re.search(r"^fitted on \d+ measured plans", out, re.MULTILINE)
    follows = out[out.index("what follows:") :].splitlines()[1:]
    assert re.match(r"- attention is \d+% of the pass \[\d+%, \d+%\] on PyTorch's ordinary path", follows[0])
    assert any("attention kernel: " in line for line in follows)
    assert any("head_dim 1 at encoder.layers.*.self_attn (largest) is no multiple of 8" in line for line in follows)
    assert re.search(r"^profile: timing what a head costs at each site, 0 of \d plans done$", err, re.MULTILINE)


def test_all_of_it_is_in_the_document(run: Run, study: Path) -> None:
    document = json.loads(run("measure", study, "--json", *QUICK)[1])
    assert document["attention"]["interval"][0] <= document["attention"]["value"] <= 1
    assert document["launch"]["batch_sizes"] == [2, 1]
    assert document["kernels"]["smallest"]["encoder.layers.0.self_attn"] == ["flash for the CPU"]
    assert document["alignment"] == {
        "multiples": [8],
        "unaligned": {
            "smallest": {},
            "rule": {},
            "present": {"encoder.layers.0.self_attn": 8, "encoder.layers.1.self_attn": 8},
            "largest": {"encoder.layers.0.self_attn": 8, "encoder.layers.1.self_attn": 8},
        },
    }
    (cost,) = document["per_head"]
    assert cost["ms"] == pytest.approx(cost["ratio"] * document["reference_ms"])
    assert document["per_head_fit"]["plans"] >= 7
    assert len(document["findings"]) >= 4
    assert "against" not in document


TWO = ("--set", "latency={batch_size: 2, threads: 1, max_seconds: 0.1, seq_len: [3, 24]}")


def test_each_length_has_a_block_of_rows(run: Run, study: Path, tmp_path: Path) -> None:
    limits = "constraints={latency_ms@3: {max_ratio: 90, of: present}, latency_ms: {max_ratio: 90, of: present}}"
    code, out, err = run("measure", study, "--plan", "*=2", "--set", limits, *TWO)
    assert code == 0, err
    blocks = re.findall(r"^plan at length (\d+) .*\n.*\n\*=2 +2-2 .*\npresent +4-4 ", out, re.MULTILINE)
    assert blocks == ["3", "24"]
    assert "batch of 2, lengths 3 and 24, forward pass" in out
    most = dict(re.findall(r"^the study's limit: (\S+) ≤ 90 × present, which is (\S+) here$", out, re.MULTILINE))
    assert list(most) == ["latency_ms", "latency_ms@3"]

    earlier = tmp_path / "earlier.json"
    earlier.write_text(run("measure", study, "--plan", "*=2", "--json", *TWO)[1])
    document = json.loads(earlier.read_text())
    shorter = document["lengths"].pop("3")
    assert document["lengths"] == {}
    for block, length in ((document, 24), (shorter, 3)):
        present = block["plans"]["present"]
        assert block["reference_ms"] == present["latency"]["median_ms"]
        assert [one["latency"]["protocol"]["seq_len"] for one in block["plans"].values()] == [length] * 2
        assert present["measured"]["latency_ms"] == document["reference_ms"], "its ratio to itself is 1"
        assert present["measured"]["latency_ms@3"] == shorter["reference_ms"]
    code, out, err = run("measure", study, "--plan", "*=2", "--against", earlier, *TWO)
    assert code == 0, err
    assert re.findall(r"^against the earlier profile, length (\d+) ", out, re.MULTILINE) == ["3", "24"]


def test_what_is_told_beside_the_plans_is_of_the_longest(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, *TWO)
    assert code == 0, err
    assert re.search(r"^a head more at \(length 24\) ", out, re.MULTILINE)
    assert "\nwhat follows, at length 24:\n" in out


def test_plans_of_the_persons_own(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--plan", "*=2", "--plan", "*.0.*=8", "--set", "latency.batch_size=2")
    assert code == 0, err
    rows = [line.split() for line in out.splitlines()]
    assert [row[:2] for row in rows[2:5]] == [["*=2", "2-2"], ["*.0.*=8", "8-4"], ["present", "4-4"]]
    assert rows[2][-1] == "4,465"
    assert [row[6] in ("faster", "slower", "no") for row in rows[2:5]] == [True, True, False]
    assert "batch of 2, forward pass" in out
    assert "profile: " in err
    assert "what follows" not in out


def test_it_compares_with_an_earlier_profile(run: Run, study: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(run("measure", study, "--plan", "*=2", "--json", *QUICK)[1])
    code, out, err = run("measure", study, "--plan", "*=2", "--against", earlier, *QUICK)
    assert code == 0, err
    (row,) = re.findall(r"^\*=2 +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+ – [\d.]+ +(.+)$", out, re.MULTILINE)
    assert float(row[2]) == pytest.approx(float(row[1]) / float(row[0]), rel=2e-3)
    assert row[3].strip() in ("differs", "no significant difference")
    document = json.loads(run("measure", study, "--plan", "*=2", "--json", "--against", earlier, *QUICK)[1])
    assert document["against"].keys() == {"*=2"}
    assert document["against"]["*=2"].keys() == {"ratio", "interval", "significant", "earlier"}


def test_what_was_timed_otherwise_is_not_compared(run: Run, study: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(run("measure", study, "--plan", "*=2", "--json", *QUICK)[1])
    code, out, err = run("measure", study, "--plan", "*=2", "--against", earlier, "--set", "latency.batch_size=3")
    assert (code, "against the earlier" in out) == (2, False)
    assert re.search(r"^\*=2 +2-2 ", out, re.MULTILINE)  # what was measured is told all the same
    assert "the batch_size of the two latencies is 3 and 2; measure both alike before comparing them" in err
    code, out, err = run("measure", study, "--against", tmp_path / "none.json")
    assert (code, out) == (2, "")
    assert "none.json: cannot be read (No such file or directory)" in err


def test_another_model_or_length_is_refused_before_anything_is_timed(run: Run, study: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    document = json.loads(run("measure", study, "--plan", "*=2", "--json", *QUICK)[1])
    earlier.write_text(json.dumps(document))
    code, out, err = run("measure", study, "--plan", "*=2", "--against", earlier, *TWO)
    assert (code, out, "profile: " in err) == (2, "", False)
    assert "this profile is of length 3, the earlier one of no named length; measure both alike" in err
    del document["plans"]["present"]
    earlier.write_text(json.dumps(document), encoding="utf-8-sig")  # as PowerShell writes it
    code, out, err = run("measure", study, "--plan", "*=2", "--against", earlier, *QUICK)
    assert (code, out, "profile: " in err) == (2, "", False)
    assert "the earlier profile is not of this model, whose present plan is" in err


def test_a_plan_that_the_earlier_profile_lacks_is_named(run: Run, study: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(run("measure", study, "--plan", "*=2", "--json", *QUICK)[1])
    code, out, err = run("measure", study, "--plan", "*=2", "--plan", "largest", "--against", earlier, *QUICK)
    assert code == 0, err
    assert "\nnot in the earlier profile: largest\n" in out


def test_plans_that_are_none_are_all_named(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--plan", "decoder.*=2 *=3")
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert "'decoder.*' matches no site" in err
    assert "3 heads do not divide the width 16" in err


def test_it_explains_its_columns_and_shows_the_studys_limits(run: Run, study: Path) -> None:
    limits = "constraints={latency_ms: {max_ratio: 1.5, of: present}, parameters: {max: 2e6}}"
    code, out, err = run("measure", study, "--set", limits, "--set", "latency={batch_size: 1, threads: 1}")
    assert code == 0, err
    page = out[: out.index("\nwhat follows:")].splitlines()
    lines = [line for line in page if not line.startswith("mind ")][-4:]  # what a busy machine adds
    assert lines[0].endswith(" (cpu), 1 thread, float32, batch of 1, forward pass")
    assert lines[1] == (
        "× present: each plan against the present one, timed in turn with it, which holds on a busy machine; ms is "
        "that times the present plan's median. p90: nine of ten passes were faster. The present plan is timed against "
        "itself, which shows the noise"
    )
    most = re.match(
        r"the study's limit: latency_ms ≤ 1.5 × present, which is ([\d.]+) here(; broken by .*)?$", lines[2]
    )
    assert most is not None
    present = next(line.split() for line in out.splitlines() if line.startswith("present"))
    assert float(most[1]) == pytest.approx(1.5 * float(present[6]), rel=0.2)  # whose own ratio is near 1
    assert lines[3] == "the study's limit: parameters ≤ 2,000,000 weights"


def test_it_names_the_plans_that_break_a_limit(run: Run, study: Path) -> None:
    limits = "constraints={latency_ms: {max: 0.0001}, parameters: {max: 4465}}"
    code, out, err = run("measure", study, "--plan", "*=2", "--set", limits, *QUICK)
    assert code == 0, err
    assert "the study's limit: latency_ms ≤ 0.0001 ms; broken by *=2, present\n" in out
    assert "the study's limit: parameters ≤ 4,465 weights\n" in out


def test_sizes_that_fit_nowhere(run: Run, study: Path) -> None:
    code, out, err = run("measure", study, "--set", "latency.batch_size=2000000000")
    assert (code, out) == (2, "")
    assert "can't allocate memory: 640.0 GB asked at once" in err
