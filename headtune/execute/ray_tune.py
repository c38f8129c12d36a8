"""Trials in Ray's workers, driven by Ray Tune. Tune places and retries nothing by itself: the broker decides.

Every start is a fresh ``Tuner``; Tune's own experiment state is thrown away, since the study's storage is the only
durable truth.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray import tune
from ray.exceptions import RayError, RayTaskError

from headtune.errors import InputError, MeasurementError
from headtune.execute.bridge import Bridge, BrokerSearcher, BrokerStopper, LossReporter, WaitReporter
from headtune.execute.cluster import Waiting, start
from headtune.execute.demand import Demand
from headtune.execute.interrupts import deferred_interrupts, immediate_interrupts
from headtune.execute.loss import why_lost
from headtune.execute.machines import capacity, located
from headtune.execute.quiet import quiet_ray
from headtune.execute.trainable import Returned, at_once, packed, pinned, train
from headtune.trial.contract import Broker, Observer, Progress, Silent
from headtune.trial.measuring import lane_of
from headtune.trial.setup import TrialSetup

T = TypeVar("T")

_LOOK_S = 1.0


class RayExecutor:
    """Runs trials in Ray workers: reused between trials on CPU, a fresh process per trial on GPU.

    Args:
        cpus: CPU cores per trial.
        gpus: GPUs per trial; a fraction shares one.
        concurrent: trials at once; as many as the resources hold if ``None``.
        cluster: ``local`` starts Ray on this machine; else the address of a running cluster, or ``auto``.
        node: address or host name of the one machine of the cluster that trials run on; any if ``None``. Each machine
            has a lane of its own.
        accelerator: Ray's name for the accelerator of the machines that trials run on, such as ``A100``; any if
            ``None``.
        observer: hears what trials wait for.

    Raises:
        InputError: the cluster cannot hold one trial where it is to run, or cannot be reached.
    """

    def __init__(
        self,
        *,
        cpus: int = 1,
        gpus: float = 0,
        concurrent: int | None = None,
        cluster: str = "local",
        node: str | None = None,
        accelerator: str | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._cpus, self._gpus, self._observer = cpus, gpus, observer or Silent()
        asked = Demand(cpus=cpus, gpus=gpus, node=node, accelerator=accelerator)
        self._owns_ray = not ray.is_initialized()
        if self._owns_ray:
            start(cluster, cpus * (concurrent or 1))
        try:
            self._demand = located(cluster, asked)
        except InputError:
            self.close()
            raise
        fit = capacity(self._demand)
        self.slots = fit if concurrent is None else min(concurrent, fit)

    def run(self, broker: Broker, setup: TrialSetup) -> None:
        """Run trials until the broker has no more."""
        folder = Path(tempfile.mkdtemp(prefix="headtune-tune-"))
        bridge = Bridge(broker, lane_of(setup) if setup.device == "cpu" else None)
        trainable = tune.with_resources(
            tune.with_parameters(train, setup=packed(setup)),
            {"cpu": self._cpus, "gpu": self._gpus, **self._demand.marks},
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
                        callbacks=[LossReporter(bridge), WaitReporter(self._waiting())],
                        failure_config=tune.FailureConfig(max_failures=0),
                        verbose=0,
                    ),
                ).fit()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def call(self, job: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        """Run *job* in a worker with a trial's resources.

        Raises:
            TaskError: the job cannot be sent to a worker, or not loaded there.
            MeasurementError: the worker was lost.
        """
        value: T = self.follow(at_once, job, *args, say=lambda _: None)
        return value

    def follow(self, job: Callable[..., Progress[T]], *args: Any, say: Callable[[str], None]) -> T:  # noqa: ANN401
        """Run *job* in a worker with a trial's resources, and say what it yields.

        Raises:
            TaskError: the job cannot be sent to a worker, or not loaded there.
            MeasurementError: the worker was lost.
        """
        work = packed((job, args))
        placed = ray.remote(
            num_cpus=self._cpus,
            num_gpus=self._gpus,
            resources=self._demand.marks,
            max_retries=0,
            num_returns="streaming",
        )
        remote: Any = placed(pinned)
        waiting = self._waiting()
        with quiet_ray(), immediate_interrupts():
            try:
                values = remote.remote(self._cpus, work)
                while not ray.wait([values], timeout=_LOOK_S)[0]:
                    waiting.look(waits=True)
                ray.get(next(values))
                while not isinstance(told := ray.get(next(values)), Returned):
                    say(told)
            except RayTaskError as error:
                if isinstance(error.cause, RayError):
                    raise _lost(error) from None
                raise error.cause from None
            except RayError as error:
                raise _lost(error) from None
        value: T = told.value
        return value

    def close(self) -> None:
        """Shut Ray down, if this executor started it."""
        if self._owns_ray:
            ray.shutdown()

    def _waiting(self) -> Waiting:
        return Waiting(self._observer, self._demand)


def _lost(error: RayError) -> MeasurementError:
    return MeasurementError(f"the worker that measures was lost: {why_lost(error)}")
