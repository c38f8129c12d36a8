import subprocess
import sys
import threading
import time

import pytest

from headtune.timing.conditions import cores
from headtune.timing.contention import Contention, Usage

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long threads wait for a core")


def work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def usage(wall: float, beside: float, waited: dict[str, float], stolen: float) -> Usage:
    return Usage(wall=wall, beside=beside, waited=waited, stolen=stolen)


def test_shares_are_of_the_time_between() -> None:
    before = usage(10.0, 3.0, {"1": 5.0, "2": 0.0, "gone": 9.0}, 100.0)
    after = usage(12.0, 4.5, {"1": 5.2, "2": 0.5, "new": 0.1}, 100.5)
    assert Contention.between(before, after) == Contention(seconds=2.0, beside=1.5, waited=0.25, stolen=0.25)


def test_where_the_system_tells_nothing_nobody_waited() -> None:
    found = Contention.between(usage(0.0, 0.0, {}, 0.0), usage(1.0, 1.0, {}, 0.0))
    assert (found.waited, found.stolen) == (0.0, 0.0)


def test_the_work_of_other_threads_is_told_from_ones_own() -> None:
    before = Usage.now()
    work(0.1)
    alone = Contention.between(before, Usage.now())
    before = Usage.now()
    other = threading.Thread(target=work, args=(0.1,))
    other.start()
    other.join()
    helped = Contention.between(before, Usage.now())
    assert alone.beside < 0.05
    assert helped.beside > alone.beside


@linux
@pytest.mark.slow
def test_processes_that_take_every_core_are_felt() -> None:
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * cores())]
    try:
        time.sleep(0.5)
        before = Usage.now()
        work(1.0)
        # Two more for each core leave a third of it; half of what that predicts is asked.
        assert Contention.between(before, Usage.now()).waited > 0.3
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
