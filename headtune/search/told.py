"""Trials that Optuna is told of in memory: thousands of them, without copying any."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from headtune.pareto.objective import Direction
from headtune.search.codec import Codec, Encoded

_NAME = "told"


class ToldTrial(FrozenTrial):
    """A trial that belongs to the one storage which is given it.

    Optuna copies a trial that is added, with each of its distributions, which took longer than all else of a proposal.
    """

    def __init__(
        self,
        state: TrialState,
        codec: Codec,
        encoded: Encoded,
        *,
        values: Sequence[float] | None = None,
        constraints: Mapping[str, float] | None = None,
        system_attrs: Mapping[str, Any] | None = None,
    ) -> None:
        now = datetime.now()
        super().__init__(
            number=-1,
            trial_id=-1,
            state=state,
            value=None,
            values=values,
            datetime_start=now,
            datetime_complete=now if state.is_finished() else None,
            params=encoded,
            distributions=codec.distributions,
            user_attrs={},
            system_attrs=dict(system_attrs or {}),
            intermediate_values={},
        )
        for name, amount in (constraints or {}).items():
            self.set_constraint(name, amount)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ToldTrial":
        return self


def told_study(
    trials: Sequence[FrozenTrial], directions: Sequence[Direction], sampler: BaseSampler | None = None
) -> optuna.Study:
    """A study in memory that has the given trials, which belong to it from now on."""
    storage = InMemoryStorage()
    study = optuna.create_study(study_name=_NAME, storage=storage, directions=directions, sampler=sampler)
    study_id = storage.get_study_id_from_name(_NAME)
    for trial in trials:
        storage.create_new_trial(study_id, trial)  # study.add_trial would check each distribution of each
    return study
