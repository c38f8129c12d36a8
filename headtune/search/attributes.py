"""A trial as Optuna keeps it, from and to a :class:`TrialRecord`.

States are honest: trained to the end is COMPLETE, stopped and infeasible are PRUNED, what went wrong is FAIL. What a
person wants to read beside them stands in the trial's user attributes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from optuna.trial import FrozenTrial, TrialState

from headtune.heads import HeadPlan
from headtune.search.draft import Draft
from headtune.timing import LatencyProfile
from headtune.timing.lengths import profiles_from_json, profiles_to_json
from headtune.trial.messages import Measurement
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

Superseded = Literal["stale", "lost"]
"""An attempt that does not count: its driver ended, or its worker did; the same training is started again."""

_SUPERSEDED = ("stale", "lost")

_STATES = {
    Outcome.OK: TrialState.COMPLETE,
    Outcome.STOPPED: TrialState.PRUNED,
    Outcome.INFEASIBLE: TrialState.PRUNED,
}

_MADE_OF = "training"

CONSTRAINTS = "constraints"
"""The one key that both Optuna and its dashboard read; a list, so that the order is fixed."""


def state_of(outcome: Outcome) -> TrialState:
    """The Optuna state of a trial that ended so."""
    return _STATES.get(outcome, TrialState.FAIL)


def born(record: TrialRecord) -> dict[str, Any]:
    """What is known of a trial when it starts."""
    made_of = {
        "key": Draft.of(record).key,
        "label": record.label,
        "plan": record.plan.to_json(),
        "params": dict(record.params),
        "repeat": record.repeat,
        "seed": record.seed,
        "in_space": record.in_space,
    }
    found = {"kind": record.kind, "heads": record.plan.label, _MADE_OF: made_of, "seconds": dict(record.seconds)}
    return found | ({"label": record.label} if record.label else {})


def known(measurement: Measurement) -> dict[str, Any]:
    """What is known of a trial before it trains."""
    found: dict[str, Any] = {"metrics": dict(measurement.metrics)}
    if measurement.violations:
        found["violations"] = dict(measurement.violations)
    if measurement.latency is not None:
        found["latency"] = measurement.latency.to_json()
    return found | ({"latency_shorter": profiles_to_json(measurement.shorter)} if measurement.shorter else {})


def ended(record: TrialRecord, outcome: Outcome) -> dict[str, Any]:
    """What is known of a trial when it has ended; the outcome last, since it makes the rest final."""
    found: dict[str, Any] = {"metrics": dict(record.metrics), "seconds": dict(record.seconds)}
    if record.test_metrics:
        found["test_metrics"] = dict(record.test_metrics)
    return found | {"reason": record.message, "outcome": outcome.value}


def constraint_vector(violations: Mapping[str, float], limits: Sequence[str]) -> list[float]:
    """The violations in the order of *limits*; 0, just met, where one is not known."""
    return [float(violations.get(name, 0.0)) for name in limits]


def ours(trial: FrozenTrial) -> bool:
    """Whether this project made the trial."""
    return _MADE_OF in trial.user_attrs


def key_of(trial: FrozenTrial) -> str:
    """Which training the trial is an attempt at."""
    return str(trial.user_attrs[_MADE_OF]["key"])


def superseded(trial: FrozenTrial) -> bool:
    """Whether the trial is an attempt that does not count."""
    return trial.user_attrs.get("outcome") in _SUPERSEDED


def draft_of(trial: FrozenTrial) -> Draft:
    """What the trial is an attempt at, with the curve it got to."""
    made_of = trial.user_attrs[_MADE_OF]
    return Draft(
        kind=trial.user_attrs["kind"],
        label=made_of["label"],
        plan=HeadPlan.from_json(made_of["plan"]),
        params=made_of["params"],
        repeat=made_of["repeat"],
        curve=curve_of(trial),
        in_space=made_of.get("in_space", True),
    )


def curve_of(trial: FrozenTrial) -> tuple[tuple[int, float], ...]:
    """The learning curve; what a database may hold for a step that is no whole number is left out."""
    return tuple(sorted((step, value) for step, value in trial.intermediate_values.items() if type(step) is int))


def record_of(trial: FrozenTrial) -> TrialRecord:
    """The record of a trial that counts."""
    kept = trial.user_attrs
    draft = draft_of(trial)
    latency = kept.get("latency")
    return TrialRecord(
        number=trial.number,
        kind=draft.kind,
        label=draft.label,
        plan=draft.plan,
        params=draft.params,
        repeat=draft.repeat,
        seed=kept[_MADE_OF]["seed"],
        outcome=_outcome(trial),
        message=kept.get("reason", ""),
        metrics=kept.get("metrics", {}),
        test_metrics=kept.get("test_metrics", {}),
        violations=kept.get("violations", {}),
        curve=draft.curve,
        latency=None if latency is None else LatencyProfile.from_json(latency),
        shorter=profiles_from_json(kept.get("latency_shorter", {})),
        seconds=kept["seconds"],
        started=trial.datetime_start,
        ended=trial.datetime_complete,
        in_space=draft.in_space,
    )


def _outcome(trial: FrozenTrial) -> Outcome | None:
    """The outcome that was written; for a trial that someone else ended, what its state says."""
    if not trial.state.is_finished():
        return None
    by_state = {TrialState.COMPLETE: Outcome.OK, TrialState.PRUNED: Outcome.STOPPED}
    return Outcome(trial.user_attrs.get("outcome", by_state.get(trial.state, Outcome.CRASHED)))
