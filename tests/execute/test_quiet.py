"""Ray's own lines do not reach standard output; everything else does."""

import logging

import pytest

from headtune.execute.quiet import quiet_ray


def test_only_the_lines_of_the_raylet_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet_ray():
        print("before")
        print("\x1b[33m(raylet)\x1b[0m A worker died or was killed")
        print()
        print("after")
    assert capsys.readouterr().out == "before\n\nafter\n"


def test_the_log_level_of_ray_comes_back() -> None:
    logger = logging.getLogger("ray")
    before = logger.level
    with quiet_ray():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == before
