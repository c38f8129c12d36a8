"""The broker, seen by Ray Tune: a thin searcher, stopper and callback over one shared bridge."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune
from ray.tune.experiment import Trial
from ray.tune.search import Searcher
from ray.tune.stopper import Stopper

from headtune.execute.cluster import Waiting
from headtune.execute.interrupts import Interrupt
from headtune.execute.loss import why_lost
from headtune.execute.trainable import MESSAGE, Report
from headtune.timing import Lane
from headtune.trial.contract import Broker, Signal
from headtune.trial.messages import Measurement, TrialResult
from headtune.trial.outcome import Outcome


class Bridge:
    """Translates Tune's trial ids to the study's numbers and Tune's events to the broker's.

    Tune pickles its searcher, stopper and callbacks to disk; none of the broker (a storage, a password) may go with
    them, so the bridge leaves itself out.
    """

    def __init__(self, broker: Broker, lane: Lane | None = None) -> None:
        """Make a bridge; *lane* is held while the broker thinks, since a sampler's work would disturb a measurement."""
        self.broker: Broker = broker
        self.numbers: dict[str, int] = {}
        self._lane = lane

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def propose(self, trial_id: str) -> dict[str, Any] | str | None:
        """Tune's next config: ``None`` to wait, ``FINISHED`` to end."""
        self.broker.beat()
        with nullcontext() if self._lane is None else self._lane.shared():
            request = self.broker.propose()
        if request is Signal.WAIT:
            return None
        if request is Signal.DONE:
            return Searcher.FINISHED
        self.numbers[trial_id] = request.number
        return {"request": request}

    def receive(self, trial_id: str, message: object) -> bool:
        """Pass a worker's message on; ``True`` ends the trial."""
        number = self.numbers.get(trial_id)
        if number is None:
            return True
        self.broker.beat()
        match message:
            case Measurement():
                self.broker.measured(number, message)
                return False
            case Report():
                stop = self.broker.report(number, message.step, message.metrics)
                if stop:
                    self._end(trial_id, TrialResult(outcome=Outcome.STOPPED, message=Outcome.STOPPED.sentence))
                return stop
            case TrialResult():
                self._end(trial_id, message)
                return True
        return False

    def lose(self, trial_id: str, reason: str) -> None:
        """The trial's worker is gone."""
        number = self.numbers.pop(trial_id, None)
        if number is not None:
            self.broker.lost(number, reason)

    def _end(self, trial_id: str, result: TrialResult) -> None:
        self.broker.finish(self.numbers.pop(trial_id), result)


class BrokerSearcher(Searcher):
    """Tune asks it for trials."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__(metric=None, mode=None)
        self._bridge = bridge

    def set_search_properties(
        self,
        metric: str | None,
        mode: str | None,
        config: Mapping[str, Any],
        **spec: Any,  # noqa: ANN401
    ) -> bool:
        """Nothing to set: metrics and directions are the broker's."""
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """The broker's next trial."""
        return self._bridge.propose(trial_id)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Nothing to do: the stopper saw the last message, and the callback sees a loss."""

    def save(self, checkpoint_path: str) -> None:
        """Write an empty state: the study's storage is the only one."""
        Path(checkpoint_path).write_text("{}")

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to read back."""


class BrokerStopper(Stopper):
    """Tune shows it every result first, and obeys."""

    def __init__(self, bridge: Bridge, interrupt: Interrupt) -> None:
        self._bridge = bridge
        self._interrupt = interrupt

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Pass the message on; end the trial when the broker says so, or when it has ended."""
        return self._bridge.receive(trial_id, result.get(MESSAGE))

    def stop_all(self) -> bool:
        """End everything when the person asked for it."""
        return self._interrupt.asked


class LossReporter(tune.Callback):
    """Tune tells it when a worker died."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:  # noqa: ANN401
        """Report the loss with what Ray knows about it."""
        self._bridge.lose(trial.trial_id, why_lost(_error_of(trial)))


class WaitReporter(tune.Callback):
    """Tune tells it at every step which trials have a worker."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:  # noqa: ANN401
        """Look whether some trial wants a worker, and none has one."""
        states = {trial.status for trial in trials}
        self._waiting.look(waits=Trial.PENDING in states and Trial.RUNNING not in states)


def _error_of(trial: Trial) -> BaseException | None:
    """What Tune has written down as the trial's error, before it says so; ``Trial.get_error`` looks elsewhere."""
    file = trial.pickled_error_file
    if file is None:
        return None
    error: BaseException = cloudpickle.loads(Path(file).read_bytes())
    return error
