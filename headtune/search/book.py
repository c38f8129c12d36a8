"""The trials of one Optuna study, written as they happen and read back as records."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

import headtune.search.attributes as attributes
from headtune.errors import StorageError
from headtune.pareto import Objective
from headtune.search.attributes import Superseded
from headtune.search.draft import Draft
from headtune.search.storage import reason
from headtune.trial.messages import Measurement
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

ATTEMPTS = 10
"""So often in a row a training may lose its driver or worker without getting further, before it counts as crashed."""


class TrialBook:
    """The trials of one study. Only the driver that holds the study's lease may write.

    Args:
        limits: names of the constraints, in the order in which their violations are kept.
    """

    def __init__(
        self, storage: BaseStorage, study_id: int, objectives: Sequence[Objective], limits: Sequence[str] = ()
    ) -> None:
        self.objectives = tuple(objectives)
        self.limits = tuple(limits)
        self._storage = storage
        self._study_id = study_id
        self._ids: dict[int, int] = {}

    def records(self) -> tuple[TrialRecord, ...]:
        """Every trial that counts, in the order of their numbers."""
        return _records(self._trials())

    def take_over(self, message: str) -> tuple[tuple[TrialRecord, ...], tuple[Draft, ...]]:
        """Let no trial run on, as :meth:`release` does.

        Returns:
            Every trial that counts, in the order of their numbers; and the trainings whose attempts all lost their
            driver or worker, in the order of their first attempts.
        """
        self.release(message)
        trials = self._trials()
        settled = {attributes.key_of(trial) for trial in trials if not attributes.superseded(trial)}
        open_trials = {attributes.key_of(trial): trial for trial in trials if attributes.key_of(trial) not in settled}
        return _records(trials), tuple(attributes.draft_of(trial) for trial in open_trials.values())

    def begin(
        self,
        record: TrialRecord,
        values: Mapping[str, Any],
        distributions: Mapping[str, BaseDistribution],
    ) -> TrialRecord:
        """Add a running trial; the record comes back with its number and its start."""
        trial = create_trial(
            state=TrialState.RUNNING,
            params=dict(values),
            distributions={name: distributions[name] for name in values},
            user_attrs=attributes.born(record),
        )
        with told():
            trial_id = self._storage.create_new_trial(self._study_id, trial)
            number = self._storage.get_trial_number_from_id(trial_id)
        self._ids[number] = trial_id
        return replace(record, number=number, started=trial.datetime_start)

    def measured(self, record: TrialRecord, measurement: Measurement) -> TrialRecord:
        """Keep what is known before training."""
        trial_id = self._ids[record.number]
        self._set(trial_id, attributes.known(measurement))
        if self.limits:
            vector = attributes.constraint_vector(measurement.violations, self.limits)
            with _writing():
                self._storage.set_trial_system_attr(trial_id, attributes.CONSTRAINTS, vector)
        return replace(
            record,
            metrics=dict(measurement.metrics),
            violations=dict(measurement.violations),
            latency=measurement.latency,
            shorter=dict(measurement.shorter),
        )

    def reported(self, record: TrialRecord, step: int, value: float) -> TrialRecord:
        """Add a point to the learning curve."""
        trial_id = self._ids[record.number]
        with _writing():
            self._storage.set_trial_intermediate_value(trial_id, step, value)
        return replace(record, curve=tuple(sorted({**dict(record.curve), step: value}.items())))

    def finish(self, record: TrialRecord, outcome: Outcome) -> TrialRecord:
        """End a running trial; the record comes back as the storage has it now."""
        values = [float(record.metrics[goal.metric]) for goal in self.objectives] if outcome is Outcome.OK else None
        trial_id = self._ids.pop(record.number)
        self._set(trial_id, attributes.ended(record, outcome))
        with _writing():
            self._storage.set_trial_state_values(trial_id, attributes.state_of(outcome), values)
        with told():
            return attributes.record_of(self._storage.get_trial(trial_id))

    def supersede(self, number: int, why: Superseded, message: str) -> None:
        """End a running trial as an attempt that does not count."""
        trial_id = self._ids.pop(number)
        self._set(trial_id, {"reason": message, "outcome": why})
        with _writing():
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)

    def release(self, message: str) -> None:
        """Let no trial run on: those that ran are started again, or count as crashed after too many attempts."""
        unended = self._trials((TrialState.RUNNING, TrialState.WAITING))
        trials = self._trials() if unended else []
        for trial in unended:
            self._ids[trial.number] = self._id_of(trial.number)
            key = attributes.key_of(trial)
            if _fruitless([attempt for attempt in _attempts(trials) if attributes.key_of(attempt) == key]) < ATTEMPTS:
                self.supersede(trial.number, "stale", message)
            else:
                record = replace(attributes.record_of(trial), message=f"ended its process {ATTEMPTS} times: {message}")
                self.finish(record, Outcome.CRASHED)

    def _trials(self, states: Sequence[TrialState] | None = None) -> list[FrozenTrial]:
        with told():
            found = self._storage.get_all_trials(self._study_id, deepcopy=False, states=states)
        return [trial for trial in found if attributes.ours(trial)]

    def _id_of(self, number: int) -> int:
        with told():
            return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def _set(self, trial_id: int, found: Mapping[str, Any]) -> None:
        for name, value in found.items():
            with _writing():
                self._storage.set_trial_user_attr(trial_id, name, value)


def _records(trials: Sequence[FrozenTrial]) -> tuple[TrialRecord, ...]:
    return tuple(attributes.record_of(trial) for trial in trials if not attributes.superseded(trial))


def _attempts(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that run, and those that lost their driver or worker."""
    return [trial for trial in trials if attributes.superseded(trial) or not trial.state.is_finished()]


def _fruitless(attempts: Sequence[FrozenTrial]) -> int:
    """How many of the last attempts in a row got no further than one before them."""
    furthest = count = 0
    for attempt in attempts:
        step = max((step for step, _ in attributes.curve_of(attempt)), default=0)
        count = 1 if step > furthest else count + 1
        furthest = max(furthest, step)
    return count


@contextmanager
def told() -> Iterator[None]:
    """Turn a database's failure into words.

    Raises:
        StorageError: the database refused, is full or out of reach, or the study was deleted.
    """
    try:
        yield
    except StorageInternalError as error:
        raise StorageError(
            f"storage: the database failed ({reason(error)}); free its disk or bring it back, then run the same "
            "command again: at most the trials in flight are lost"
        ) from None
    except KeyError:
        raise StorageError("storage: the study was deleted while it ran; run the command again to begin anew") from None


@contextmanager
def _writing() -> Iterator[None]:
    """A trial that someone ended from outside, in the dashboard, is left as they left it."""
    with suppress(UpdateFinishedTrialError), told():
        yield
