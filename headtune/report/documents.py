"""The study as JSON documents: the front with its verdict, and everything that was timed.

A value that is not finite is written as ``null``, since JSON has no word for it.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TypeAlias

from headtune.pareto.objective import Objective
from headtune.report.front_rows import Estimate, FrontRow, front_table
from headtune.report.search_front import front_hypervolume, front_trials, objective_values
from headtune.report.tally import outcome_counts, trained_trials
from headtune.study.record import LatencyRange, StudyRecord
from headtune.timing.lengths import profiles_to_json
from headtune.timing.profile import LatencyProfile
from headtune.trial.record import TrialRecord

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def front_document(record: StudyRecord) -> Json:
    """What ``front.json`` holds: the study in short, the front as searched, the plans shown, the verdict."""
    verdict = record.verdict
    return _clean(
        {
            "study": _study(record),
            "objectives": [_objective(objective) for objective in record.objectives],
            "constraints": dict(record.constraints),
            "limits": dict(record.limits),
            "reference_point": record.reference_point,
            "hypervolume": front_hypervolume(record),
            "baselines": {name: plan.to_json() for name, plan in record.baselines.items()},
            "front": [_trial(record, trial) for trial in front_trials(record)],
            "plans": [_row(row) for row in front_table(record)],
            "influences": [asdict(one) for one in record.influences],
            "verdict": None
            if verdict is None
            else {
                "rule": verdict.rule,
                "findings": verdict.findings,
                "recommended": verdict.recommended is not None,
                "better": _letters(record),
            },
        }
    )


def _letters(record: StudyRecord) -> dict[str, object]:
    """The differences that were found: metric → pairs of plans by their letters, the better one first."""
    letters = {row.finalist: row.letter for row in front_table(record) if row.finalist is not None}
    found = {} if record.verdict is None else record.verdict.better
    return {metric: [[letters[a], letters[b]] for a, b in pairs] for metric, pairs in found.items()}


def latency_document(record: StudyRecord) -> Json:
    """What ``latency.json`` holds: the protocol, the versions, the range found before training, every profile.

    Where several sequence lengths are timed, all of it is at the longest, and ``shorter`` has the same at the others.
    """
    timed = record.latency_range
    return _clean(
        {
            "protocol": None if record.latency is None else asdict(record.latency),
            "versions": dict(record.versions),
            **_range(timed),
            "shorter": {
                str(length): _range(other) for length, other in ({} if timed is None else timed.shorter).items()
            },
            "trials": [
                {"number": trial.number, "plan": trial.plan.to_json(), **_profiles(trial.latency, trial.shorter)}
                for trial in (*record.trials, *record.verify_trials)
                if trial.latency is not None
            ],
            "finalists": [
                {"labels": one.labels, "plan": one.plan.to_json(), **_profiles(one.latency, one.shorter)}
                for one in record.finalists
                if one.latency is not None
            ],
        }
    )


def _range(found: LatencyRange | None) -> dict[str, object]:
    if found is None:
        return {"reference_ms": None, "range": {}}
    plans = {
        name: {"plan": found.plans[name].to_json(), "profile": profile.to_json()}
        for name, profile in found.profiles.items()
    }
    return {"reference_ms": found.reference_ms, "range": plans}


def _profiles(longest: LatencyProfile, shorter: Mapping[int, LatencyProfile]) -> dict[str, object]:
    return {"profile": longest.to_json(), "shorter": profiles_to_json(shorter)}


def _study(record: StudyRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "task": record.task,
        "seed": record.seed,
        "hold": record.hold,
        "weights": record.weights,
        "space_size": record.space_size,
        "sampler": record.sampler,
        "epochs": record.epochs,
        "trials_asked": record.trials_asked,
        "trials_trained": trained_trials(record),
        "outcomes": {outcome or "running": number for outcome, number in outcome_counts(record.trials).items()},
        "versions": dict(record.versions),
    }


def _objective(objective: Objective) -> dict[str, object]:
    return {"metric": objective.metric, "direction": objective.direction, "unit": objective.unit}


def _trial(record: StudyRecord, trial: TrialRecord) -> dict[str, object]:
    return {
        "number": trial.number,
        "kind": trial.kind,
        "label": trial.label,
        "in_space": trial.in_space,
        "hold": record.hold,
        "weights": record.weights,
        "plan": trial.plan.to_json(),
        "params": dict(trial.params),
        "values": objective_values(record, trial),
        "metrics": dict(trial.metrics),
        "seed": trial.seed,
    }


def _row(row: FrontRow) -> dict[str, object]:
    return {
        "letter": row.letter,
        "labels": row.labels,
        "trial": row.trial,
        "hold": row.hold,
        "weights": row.weights,
        "plan": row.plan.to_json(),
        "params": dict(row.params),
        "recommended": row.recommended,
        "on_front": row.on_front,
        "feasible": row.feasible,
        "in_space": row.in_space,
        "verified": row.verified,
        "tied_with_best": row.tied_with_best,
        "front_probability": row.front_probability,
        "quality": _estimates(row.quality),
        "test": _estimates(row.test),
        "measured": dict(row.measured),
        "latency": None if row.latency is None else row.latency.to_json(),
        "shorter": profiles_to_json(row.shorter),
    }


def _estimates(estimates: Mapping[str, Estimate]) -> dict[str, object]:
    return {
        name: {"mean": estimate.mean, "sd": estimate.deviation, "values": estimate.values}
        for name, estimate in estimates.items()
    }


def _clean(value: object) -> Json:
    """The value in JSON's own types."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(key): _clean(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")
