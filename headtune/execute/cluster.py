"""A Ray cluster: starting or reaching it, how many trials it holds, and what it lacks while a trial waits."""

import logging
import os
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import ray

from headtune.errors import InputError, in_words
from headtune.execute.interrupts import immediate_interrupts
from headtune.trial.contract import Observer

FIRST_S = 30.0
"""So long a trial waits for a worker before the person hears of it: a worker's own start takes less."""

AGAIN_S = 600.0
"""So long until the person hears of it again."""

_REACHED_S = 5.0

_ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_V2_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
}
"""What Ray reads at its import or start: no per-trial loggers, no snapshots, no aborts over a silent trial."""


def start(cluster: str, cpus: int) -> None:
    """Start Ray on this machine, or join a running cluster.

    Args:
        cluster: ``local``, the address of a running cluster, or ``auto``.
        cpus: how many a local one has at least.

    Raises:
        InputError: there is no such cluster.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        with immediate_interrupts():
            if cluster == "local":
                _init(address="local", num_cpus=max(os.cpu_count() or 1, cpus), include_dashboard=False)
            else:
                _join(cluster)
    except SystemExit:  # Ray's own answer to SIGTERM
        raise KeyboardInterrupt from None


def capacity(cpus: float, gpus: float) -> int:
    """How many trials that ask so much the cluster holds at once; a trial lies on one machine."""
    return sum(_fits(cpus, gpus, machine) for machine in _machines())


def check_capacity(cluster: str, cpus: float, gpus: float) -> None:
    """Refuse what no machine can hold.

    Raises:
        InputError: naming what is asked, and what there is.
    """
    if capacity(cpus, gpus) < 1:
        sizes = dict.fromkeys(_amounts(machine.get("CPU", 0), machine.get("GPU", 0)) for machine in _machines())
        has = f"has {next(iter(sizes))}" if len(sizes) == 1 else f"has machines of {', of '.join(sizes)}"
        raise InputError(
            f"resources: a trial asks {_amounts(cpus, gpus)}; the {cluster} cluster {has}: "
            "ask less, or name a cluster that has them"
        )


class Waiting:
    """Tells the person what a trial waits for: after :data:`FIRST_S` seconds, then every :data:`AGAIN_S`.

    Tune pickles its callbacks to disk; an observer may hold a terminal, so that nothing of this goes with them.

    Args:
        observer: is told.
        cpus: CPUs that a trial asks.
        gpus: GPUs that a trial asks.
        clock: seconds from any start.
    """

    def __init__(
        self, observer: Observer, cpus: float, gpus: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._observer = observer
        self._asked = _amounts(cpus, gpus)
        self._clock = clock
        self._due = clock() + FIRST_S

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def look(self, *, waits: bool) -> None:
        """Called now and then; *waits* is false while some trial has a worker, or none wants one."""
        now = self._clock()
        if not waits:
            self._due = now + FIRST_S
        elif now >= self._due:
            self._due = now + AGAIN_S
            free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
            self._observer.note(
                f"waiting for a free worker: a trial asks {self._asked}; the cluster has "
                f"{_amounts(free.get('CPU', 0), free.get('GPU', 0))} free now"
            )


def _join(cluster: str) -> None:
    try:
        _check_reachable(cluster)
        _init(address=cluster)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise InputError(
            f"resources.cluster: no Ray cluster at {cluster!r} ({in_words(error)}); "
            "start one with `ray start --head`, or use local"
        ) from None


def _check_reachable(cluster: str) -> None:
    """Knock at the address first: Ray itself tries for minutes, and writes of it to the terminal.

    Raises:
        OSError: nobody answers.
    """
    address = os.environ.get("RAY_ADDRESS", "") if cluster == "auto" else cluster
    found = re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:(\d+)", address)
    if found is not None:
        socket.create_connection((found[1], int(found[2])), timeout=_REACHED_S).close()


def _init(**settings: Any) -> None:  # noqa: ANN401
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **settings)


def _machines() -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _fits(cpus: float, gpus: float, machine: dict[str, float]) -> int:
    asked = {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus)) if amount > 0}
    # Half a GPU fits twice although floats may say 1.9999….
    return min(int(machine.get(name, 0) / amount + 1e-9) for name, amount in asked.items())


def _amounts(cpus: float, gpus: float) -> str:
    return " and ".join(f"{n:g} {name}{'' if n == 1 else 's'}" for n, name in ((cpus, "CPU"), (gpus, "GPU")))
