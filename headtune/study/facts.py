"""The study's own findings, to JSON and back; trials are the ledger's."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headtune.heads import AttentionSite, HeadPlan
from headtune.study.record import Finalist, LatencyRange, Verdict
from headtune.timing import LatencyProfile
from headtune.timing.lengths import profiles_from_json, profiles_to_json


def sites_to_json(sites: tuple[AttentionSite, ...]) -> list[dict[str, Any]]:
    """The sites as JSON keeps them."""
    return [asdict(site) for site in sites]


def sites_from_json(data: list[dict[str, Any]]) -> tuple[AttentionSite, ...]:
    """The inverse of :func:`sites_to_json`."""
    return tuple(AttentionSite(**site) for site in data)


def plans_to_json(plans: Mapping[str, HeadPlan]) -> dict[str, Any]:
    """Named plans as JSON keeps them."""
    return {name: plan.to_json() for name, plan in plans.items()}


def plans_from_json(data: Mapping[str, Any]) -> dict[str, HeadPlan]:
    """The inverse of :func:`plans_to_json`."""
    return {name: HeadPlan.from_json(plan) for name, plan in data.items()}


def range_to_json(found: LatencyRange) -> dict[str, Any]:
    """A latency range as JSON keeps it."""
    return {
        "plans": plans_to_json(found.plans),
        "profiles": {name: profile.to_json() for name, profile in found.profiles.items()},
        "reference_ms": found.reference_ms,
        "shorter": {str(length): range_to_json(other) for length, other in found.shorter.items()},
    }


def range_from_json(data: Mapping[str, Any]) -> LatencyRange:
    """The inverse of :func:`range_to_json`."""
    return LatencyRange(
        plans=plans_from_json(data["plans"]),
        profiles={name: LatencyProfile.from_json(profile) for name, profile in data["profiles"].items()},
        reference_ms=data["reference_ms"],
        shorter={int(length): range_from_json(other) for length, other in data.get("shorter", {}).items()},
    )


def finalist_to_json(finalist: Finalist) -> dict[str, Any]:
    """A finalist as JSON keeps it."""
    return {
        "plan": finalist.plan.to_json(),
        "params": dict(finalist.params),
        "measured": dict(finalist.measured),
        "latency": None if finalist.latency is None else finalist.latency.to_json(),
        "quality": dict(finalist.quality),
        "test": dict(finalist.test),
        "labels": list(finalist.labels),
        "tied_with_best": finalist.tied_with_best,
        "feasible": finalist.feasible,
        "in_space": finalist.in_space,
        "shorter": profiles_to_json(finalist.shorter),
        "front_probability": finalist.front_probability,
    }


def finalist_from_json(data: Mapping[str, Any]) -> Finalist:
    """The inverse of :func:`finalist_to_json`."""
    return Finalist(
        plan=HeadPlan.from_json(data["plan"]),
        params=data["params"],
        labels=tuple(data["labels"]),
        measured=data["measured"],
        latency=None if data["latency"] is None else LatencyProfile.from_json(data["latency"]),
        quality={metric: tuple(values) for metric, values in data["quality"].items()},
        test={metric: tuple(values) for metric, values in data["test"].items()},
        tied_with_best=data["tied_with_best"],
        feasible=data["feasible"],
        in_space=data["in_space"],
        shorter=profiles_from_json(data.get("shorter", {})),
        front_probability=data.get("front_probability"),
    )


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """The inverse of ``dataclasses.asdict`` of a verdict."""
    better = {metric: tuple((a, b) for a, b in pairs) for metric, pairs in data.get("better", {}).items()}
    return Verdict(recommended=data["recommended"], rule=data["rule"], findings=tuple(data["findings"]), better=better)
