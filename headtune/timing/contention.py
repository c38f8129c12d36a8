"""How much others took of the CPU while something was timed."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_THREADS = Path("/proc/self/task")
_STAT = Path("/proc/stat")
_STEAL = 8
"""Where the first line of /proc/stat has the time that the hypervisor gave to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counters of this process and its machine at one moment, in seconds.

    Attributes:
        wall: of a clock.
        beside: CPU that threads of this process used, but for the calling one.
        waited: by thread, ready to run while others had the core; empty where the system does not tell.
        stolen: of all cores together, that the hypervisor gave to other machines.
    """

    wall: float
    beside: float
    waited: Mapping[str, float]
    stolen: float

    @classmethod
    def now(cls) -> "Usage":
        """The counters now."""
        beside = time.process_time() - time.thread_time()
        return cls(wall=time.perf_counter(), beside=beside, waited=_waited(), stolen=_stolen())


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """What others took between two moments.

    Attributes:
        seconds: between them.
        beside: seconds of CPU that threads of this process used, but for the calling one.
        waited: share of the time in which this process's most delayed thread was ready to run and had no core; 0 where
            only Linux could tell.
        stolen: share of the time in which the hypervisor gave a core to another machine, over all cores.
    """

    seconds: float
    beside: float
    waited: float
    stolen: float

    @classmethod
    def between(cls, before: Usage, after: Usage) -> "Contention":
        """What happened from *before* to *after*."""
        seconds = max(after.wall - before.wall, 1e-9)
        waits = [after.waited[thread] - before.waited.get(thread, 0.0) for thread in after.waited]
        return cls(
            seconds=seconds,
            beside=after.beside - before.beside,
            waited=min(max(waits, default=0.0) / seconds, 1.0),  # a wait counts when it ends, even if it began before
            stolen=(after.stolen - before.stolen) / seconds,
        )


def _waited() -> dict[str, float]:
    if sys.platform != "linux":
        return {}
    found = {}
    for thread in _THREADS.iterdir():
        try:
            found[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):  # a thread that ended meanwhile; a kernel without these counters
            continue
    return found


def _stolen() -> float:
    if sys.platform != "linux":
        return 0.0
    try:
        fields = _STAT.read_text().split("\n", 1)[0].split()
        return int(fields[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0
