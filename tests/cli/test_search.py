import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.config import load_study
from headtune.study import search

Run = Callable[..., tuple[int, str, str]]


def test_a_study_from_beginning_to_end_and_again(run: Run, study: Path) -> None:
    code, out, err = run("search", study)
    output = study.parent / "out"
    assert code == 0, err
    assert "Traceback" not in err
    for name in ("study.db", "trials.csv", "front.csv", "front.json", "report.html", "headtune.log"):
        assert (output / name).is_file(), name
    assert "recommended" in out
    assert [line for line in out.splitlines() if line.startswith("plan: encoder.layers.0.self_attn=")]
    phases = [line.partition(":")[0] for line in err.splitlines()]
    assert [phase for phase in dict.fromkeys(phases) if phase in ("check", "search", "verify", "report")] == [
        "check",
        "search",
        "verify",
        "report",
    ]
    assert err.rstrip().endswith(f"open {output / 'report.html'}")

    code, again, err = run("search", study)
    assert code == 0
    assert "finished already" in err
    assert again == out

    code, more, err = run("search", study, "--set", "search.trials=8", "--json")
    assert code == 0, err
    assert "search: 6 of 8 done" in err
    document = json.loads(more)
    assert document["study"]["trials_trained"] == 8
    assert document["verdict"]["recommended"] is True

    assert run("front", study, "--json")[1] == more
    assert "recommended" in run("front", study)[1]
    code, paths, _ = run("report", study)
    assert code == 0
    assert all(Path(path).is_file() for path in paths.splitlines())
    assert str(output / "report.html") in paths


def test_a_budget_that_nothing_can_meet_exits_3_with_what_is_achievable(run: Run, study: Path) -> None:
    code, out, err = run("search", study, "--set", "constraints.parameters={max: 100}")
    assert (code, out, "Traceback" in err) == (3, "", False)
    assert "error: no plan can meet parameters ≤ 100 weights" in err
    assert "achievable is 4465" in err


@pytest.mark.slow
def test_where_the_only_feasible_plan_fails_the_search_exits_3_with_the_nearest_range(run: Run, study: Path) -> None:
    # A head of 4 features has 3 x (16 x 4 + 4) + 4 x 16 weights: three heads fewer at both sites leave 4465 - 6 x 268.
    least = 4465 - 6 * 268
    limit = ["--set", f"constraints.parameters={{max: {least}}}", "--set", "space.hold=head_dim"]
    code, out, err = run("search", study, *limit, "--set", "task_args={bad: {'1': raise}}")
    assert (code, "Traceback" in err) == (3, False), err
    assert "No plan can be recommended." in out
    assert err.splitlines()[-2:] == [
        "error: no finalist meets every constraint and lies in the space",
        f"error: parameters ≤ 2,857 weights: the limit is {least}, and the plans that were tried reach {least} to "
        "4465; raise the limit, or make the model smaller in other ways",
    ]


def test_a_study_whose_meaning_changed_is_refused(run: Run, study: Path) -> None:
    search(load_study(study))
    code, out, err = run("search", study, "--set", "space.heads=[1, 2]")
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert err.splitlines()[-1].startswith("error: ")


def test_a_task_that_always_fails_exits_1_with_the_reasons(run: Run, study: Path) -> None:
    bad = ", ".join(f"'{heads}': raise" for heads in (1, 2, 4, 8, 16))
    code, out, err = run("search", study, "--set", f"task_args={{bad: {{{bad}}}}}")
    assert (code, out, "Traceback" in err) == (1, "", False)
    assert "the data is broken" in err


def test_bad_trials_do_not_stop_the_study(run: Run, study: Path) -> None:
    bad = "task_args={bad: {'1': raise, '16': nan}}"
    code, _, err = run("search", study, "--set", bad)
    assert code == 0, err
    assert "the data is broken" in err
    assert "Traceback" not in err
    assert "the data is broken" in (study.parent / "out" / "trials.csv").read_text()
    assert "Traceback" in (study.parent / "out" / "headtune.log").read_text()


def test_an_output_that_cannot_be_written(run: Run, study: Path) -> None:
    (study.parent / "out").write_text("a file")
    code, out, err = run("search", study)
    assert (code, out, "Traceback" in err) == (2, "", False)
    assert err.splitlines()[-1] == (
        f"error: {study.parent / 'out'}: cannot be written (File exists); name another folder with `output`"
    )


@pytest.mark.parametrize(
    "storage", ["sqlite:///study.yaml/study.db", "postgresql://user:hunter2@localhost:1/none", "what://is.this"]
)
def test_a_storage_that_cannot_be_opened(run: Run, study: Path, storage: str) -> None:
    code, out, err = run("search", study, "--set", f"storage={storage}")
    assert (code, out, "Traceback" in err) == (2, "", False), err
    assert "hunter2" not in err
    log = study.parent / "out" / "headtune.log"
    assert not log.exists() or "hunter2" not in log.read_text()


def on_terminal(*command: str) -> tuple[int, str]:
    """Exit code and screen of a command whose streams are a terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    screen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that nobody holds the other end any more
            part = b""
        if not part:
            break
        screen += part
    os.close(ours)
    return process.wait(), screen.decode()


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_a_terminal_shows_the_front_while_the_search_runs(study: Path, executor: str) -> None:
    options = ("--set", f"resources.executor={executor}", "--set", "task_args={seconds_per_epoch: 0.1}")
    code, screen = on_terminal(sys.executable, "-m", "headtune", "search", str(study), *options)
    assert (code, "Traceback" in screen) == (0, False), screen[-2000:]
    assert "front so far" in screen
    assert "of 6 done" in screen
    assert "plan: encoder.layers.0.self_attn=" in screen


@pytest.mark.slow
def test_ctrl_c_leaves_the_study_intact_and_the_same_command_continues(study: Path, tmp_path: Path) -> None:
    log = tmp_path / "trainings"
    command = [sys.executable, "-m", "headtune", "search", str(study), "--set", "search.trials=5"]
    command += ["--set", f"task_args={{seconds_per_epoch: 0.3, log: {log}}}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (log.exists() and len(log.read_text().splitlines()) >= 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, "Traceback" in err) == (130, "", False), err
    assert err.splitlines()[-1] == "interrupted: the study is intact; run the same command to continue"

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    front = json.loads((study.parent / "out" / "front.json").read_text())
    assert front["study"]["trials_trained"] == 5
