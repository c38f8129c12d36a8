"""A driver killed at random moments: the same command again ends with exactly what was asked."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from headtune.search import Ledger
from headtune.trial import Outcome

TASK = Path(__file__).parents[1] / "tasks" / "tiny.py"
TRIALS, KILLS = 16, 5

STUDY = f"""\
version: 1
name: survivor
task: {TASK}:task
task_args: {{log: LOG, seconds_per_epoch: 0.4, layers: 4}}
space: {{hold: width, weights: fresh}}
objectives:
  - {{metric: quality, direction: maximize}}
  - {{metric: parameters, direction: minimize}}
search: {{trials: {TRIALS}, epochs: 4, sampler: tpe, stop_early: false}}
verify: {{top: 2, seeds: 1, max_seeds: 1}}
output: out
"""


@pytest.mark.slow
def test_kill_nine_five_times_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """625 plans, 16 trials: at least ten times the trials; five kills at moments that the seed draws."""
    log = tmp_path / "log"
    study = tmp_path / "study.yaml"
    study.write_text(STUDY.replace("LOG", str(log)))
    url = f"sqlite:///{tmp_path / 'out' / 'study.db'}"
    rng = random.Random(0)
    finished: dict[int, object] = {}
    kills = 0
    while kills < KILLS:
        driver = _start(study, tmp_path)
        _wait_for_more_trainings(log, driver)
        time.sleep(rng.uniform(0.0, 3.0))
        if driver.poll() is not None:
            break  # faster than the kills: the study has ended
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        kills += 1
        now = {trial.number: trial for trial in Ledger.read(url, "survivor").trials() if trial.outcome is not None}
        assert finished.items() <= now.items()
        finished = dict(now)
    assert kills >= 3
    done = subprocess.run([*_command(study)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    ledger = Ledger.read(url, "survivor")
    trials = ledger.trials()
    assert Counter(trial.outcome for trial in trials) == {Outcome.OK: TRIALS}
    assert len({trial.plan for trial in trials}) == TRIALS
    assert finished.items() <= {trial.number: trial for trial in trials}.items()
    assert all(trial.outcome is Outcome.OK for trial in ledger.verify_trials())


def _command(study: Path) -> list[str]:
    return [sys.executable, "-m", "headtune", "search", str(study)]


def _start(study: Path, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "driver.err").open("ab") as errors:
        return subprocess.Popen(_command(study), cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)


def _wait_for_more_trainings(log: Path, driver: subprocess.Popen[bytes]) -> None:
    """Until this driver has started a training, at most two minutes."""
    before = _lines(log)
    deadline = time.monotonic() + 120
    while _lines(log) == before and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


def _lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0
