"""A study read back from its storage, without the task."""

from dataclasses import asdict
from typing import Any

from headtune.errors import StorageError
from headtune.heads import HeadRanking
from headtune.pareto import Objective
from headtune.search import Influence, Ledger, LedgerView
from headtune.study.checking import Checked
from headtune.study.facts import (
    finalist_from_json,
    plans_from_json,
    plans_to_json,
    range_from_json,
    sites_from_json,
    sites_to_json,
    verdict_from_json,
)
from headtune.study.fingerprint import versions
from headtune.study.preparing import needs, protocol_of
from headtune.study.record import StudyRecord
from headtune.study.shared_scores import supernet_of
from headtune.study.spec import StudySpec
from headtune.timing import LatencyProtocol


def read(spec: StudySpec) -> StudyRecord:
    """The study as its storage has it now, also while another process runs it.

    Raises:
        StorageError: there is no such storage, or no such study in it.
    """
    return record_of(Ledger.read(spec.storage, spec.name))


def manifest_of(spec: StudySpec) -> dict[str, Any]:
    """What a reader needs to know of the study beside its trials, as far as the spec says it."""
    constraints = {limit.name: str(limit) for limit in spec.limits}
    if spec.space.head_dim is not None:
        constraints[spec.space.head_dim.name] = str(spec.space.head_dim)
    return {
        "task": spec.task.name,
        "seed": spec.seed,
        "hold": spec.space.hold,
        "weights": spec.weights,
        "objectives": [asdict(goal) for goal in spec.objectives],
        "constraints": constraints,
        "sampler": spec.search.sampler,
        "trials_asked": spec.search.trials,
        "epochs": spec.search.epochs,
        "latency": asdict(protocol_of(spec)) if needs(spec, "latency_ms") else None,
        "versions": versions(),
    }


def checked_to_json(checked: Checked) -> dict[str, Any]:
    """What the check found, as the storage keeps it."""
    named = {name: checked.baselines[name] for name in (*checked.baselines.plans, *checked.baselines.aliases)}
    return {
        "sites": sites_to_json(checked.sites),
        "baselines": plans_to_json(named),
        "space_size": checked.space.size,
        "trains": checked.trains,
        "kept": checked.kept,
    }


def record_of(view: Ledger | LedgerView) -> StudyRecord:
    """Everything the storage knows of a study.

    Raises:
        StorageError: the study never got through its check.
    """
    manifest, checked = view.manifest, view.recall("checked")
    if checked is None:
        raise StorageError(f"study {view.name!r} holds nothing yet: run `headtune search` first")
    found, verdict, reference_point = (view.recall(key) for key in ("latency_range", "verdict", "reference_point"))
    latency, ranking = manifest["latency"], view.recall("ranking")
    return StudyRecord(
        name=view.name,
        task=manifest["task"],
        seed=manifest["seed"],
        hold=manifest["hold"],
        weights=manifest["weights"],
        sites=sites_from_json(checked["sites"]),
        objectives=tuple(Objective(**goal) for goal in manifest["objectives"]),
        constraints=manifest["constraints"],
        limits=view.recall("limits") or {},
        space_size=checked["space_size"],
        sampler=view.recall("sampler") or manifest["sampler"],
        trials_asked=manifest["trials_asked"],
        epochs=manifest["epochs"],
        latency=None if latency is None else LatencyProtocol(**latency),
        latency_range=None if found is None else range_from_json(found),
        baselines=plans_from_json(checked["baselines"]),
        trials=view.trials(),
        verify_trials=view.verify_trials(),
        finalists=tuple(finalist_from_json(one) for one in view.recall("finalists") or ()),
        verdict=None if verdict is None else verdict_from_json(verdict),
        reference_point=None if reference_point is None else tuple(reference_point),
        versions=manifest["versions"],
        ranking=None if ranking is None else HeadRanking.from_json(ranking),
        trains=checked.get("trains", True),
        influences=tuple(map(Influence.from_json, view.recall("influences") or ())),
        supernet=supernet_of(view),
    )
