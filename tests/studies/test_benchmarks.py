"""The benchmarks run, and print every row; what their figures are is for a quiet machine to say."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "studies" / "benchmarks"

ROWS = {
    ("lane.py", "--rounds", "10", "--seconds", "0.1"): ("idle again", "2 trials, lane", "2 trials, no lane"),
    ("overhead.py", "5"): ("plain ray.tune.Tuner", "headtune, random", "headtune, gp"),
    ("pruning.py", "--rounds", "1", "--seconds", "0.1"): ("whole, again", "masked", "pruned by headtune"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ROWS, ids=lambda command: command[0])
def test_every_row_is_printed(command: tuple[str, ...]) -> None:
    name, *arguments = command
    done = subprocess.run(
        [sys.executable, BENCHMARKS / name, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1 if name == "lane.py" else 0), done.stderr  # 1: the lane does not hold under load
    for row in ROWS[command]:
        assert any(line.startswith(f"{row} ") for line in done.stdout.splitlines()), done.stdout
