"""Trials in Ray's workers, driven by Ray Tune. Tune places and retries nothing by itself: the broker decides.

Every start is a fresh ``Tuner``; Tune's own experiment state is thrown away, since the study's storage is the only
durable truth.
"""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray import tune

from headtune.errors import InputError, MeasurementError
from headtune.execute.bridge import Bridge, BrokerSearcher, BrokerStopper, LossReporter
from headtune.execute.interrupts import deferred_interrupts, immediate_interrupts
from headtune.execute.quiet import quiet_ray
from headtune.execute.trainable import pinned, train
from headtune.trial.contract import Broker
from headtune.trial.measuring import lane_of
from headtune.trial.setup import TrialSetup

T = TypeVar("T")

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


class RayExecutor:
    """Runs trials in Ray workers: reused between trials on CPU, a fresh process per trial on GPU.

    Args:
        cpus: CPU cores per trial.
        gpus: GPUs per trial; a fraction shares one.
        concurrent: trials at once; as many as the resources hold if ``None``.
        cluster: ``local`` starts Ray on this machine; else the address of a running cluster, or ``auto``.

    Raises:
        InputError: the cluster cannot hold one trial, or cannot be reached.
    """

    def __init__(
        self, *, cpus: int = 1, gpus: float = 0, concurrent: int | None = None, cluster: str = "local"
    ) -> None:
        self._cpus, self._gpus, self._cluster = cpus, gpus, cluster
        self._owns_ray = not ray.is_initialized()
        if self._owns_ray:
            _start(cluster, cpus * (concurrent or 1))
        fit = self._fitting()
        if fit < 1:
            self.close()
            raise InputError(
                f"resources: a trial asks {cpus} CPUs and {gpus:g} GPUs; the {cluster} cluster has "
                f"{_total('CPU'):g} and {_total('GPU'):g}: ask less, or name a cluster that has them"
            )
        self.slots = fit if concurrent is None else min(concurrent, fit)

    def run(self, broker: Broker, setup: TrialSetup) -> None:
        """Run trials until the broker has no more."""
        folder = Path(tempfile.mkdtemp(prefix="headtune-tune-"))
        bridge = Bridge(broker, lane_of(setup) if setup.device == "cpu" else None)
        trainable = tune.with_resources(
            tune.with_parameters(train, setup=setup), {"cpu": self._cpus, "gpu": self._gpus}
        )
        try:
            with quiet_ray(), deferred_interrupts() as interrupt:
                tune.Tuner(
                    trainable,
                    tune_config=tune.TuneConfig(
                        search_alg=BrokerSearcher(bridge), num_samples=-1, reuse_actors=self._gpus == 0
                    ),
                    run_config=tune.RunConfig(
                        name="trials",
                        storage_path=str(folder),
                        stop=BrokerStopper(bridge, interrupt),
                        callbacks=[LossReporter(bridge)],
                        failure_config=tune.FailureConfig(max_failures=0),
                        verbose=0,
                    ),
                ).fit()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def call(self, job: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        """Run *job* in a worker with a trial's resources."""
        remote: Any = ray.remote(num_cpus=self._cpus, num_gpus=self._gpus, max_retries=0)(pinned)
        with quiet_ray(), immediate_interrupts():
            try:
                value: T = ray.get(remote.remote(self._cpus, job, args))
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.RayActorError) as error:
                raise MeasurementError(f"the worker that measures died: killed, or out of memory ({error})") from None
        return value

    def close(self) -> None:
        """Shut Ray down, if this executor started it."""
        if self._owns_ray:
            ray.shutdown()

    def _fitting(self) -> int:
        by_cpu = _total("CPU") // self._cpus
        return int(by_cpu if self._gpus == 0 else min(by_cpu, _total("GPU") // self._gpus))


def _start(cluster: str, cpus_wanted: int) -> None:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if cluster == "local":
        cores = max(os.cpu_count() or 1, cpus_wanted)
        ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        return
    try:
        ray.init(address=cluster, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, TimeoutError) as error:
        raise InputError(
            f"resources.cluster: no Ray cluster at {cluster!r} ({error}); "
            "start one with `ray start --head`, or use local"
        ) from None


def _total(resource: str) -> float:
    return float(ray.cluster_resources().get(resource, 0))  # type: ignore[no-untyped-call]
