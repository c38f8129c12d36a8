"""A Ray cluster: starting or reaching it, and what it lacks while a trial waits."""

import logging
import os
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import ray

from headtune.errors import InputError, in_words
from headtune.execute.demand import Demand, amounts
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


class Waiting:
    """Tells the person what a trial waits for: after :data:`FIRST_S` seconds, then every :data:`AGAIN_S`.

    Tune pickles its callbacks to disk; an observer may hold a terminal, so that nothing of this goes with them.

    Args:
        observer: is told.
        demand: what a trial asks.
        clock: seconds from any start.
    """

    def __init__(self, observer: Observer, demand: Demand, clock: Callable[[], float] = time.monotonic) -> None:
        self._observer = observer
        self._demand = demand
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
                f"waiting for a free worker: a trial asks {self._demand}; the cluster has "
                f"{amounts(free.get('CPU', 0), free.get('GPU', 0))} free now"
                f"{' on all its machines together' if self._demand.placed else ''}"
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
