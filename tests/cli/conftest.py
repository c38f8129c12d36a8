from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from headtune.cli.app import main

TINY = Path(__file__).parents[1] / "tasks" / "tiny.py"


class Done(NamedTuple):
    """How a call of the command line ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``headtune`` in this process."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of the tiny task: 25 plans, quality against parameters, in this process."""
    path = tmp_path / "study.yaml"
    path.write_text(
        "version: 1\n"
        "name: tiny\n"
        f"task: {TINY}:task\n"
        "space: {hold: width, weights: fresh}\n"
        "objectives:\n"
        "  - {metric: quality, direction: maximize}\n"
        "  - {metric: parameters, direction: minimize}\n"
        "search: {trials: 6, epochs: 2, sampler: random, stop_early: false}\n"
        "verify: {top: 2, seeds: 1, max_seeds: 1}\n"
        "resources: {executor: inline}\n"
        "output: out\n"
    )
    return path
