"""A profile as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from headtune.study import Change, LatencyRange, Profile, ProfileDetails, beside_present, profile_findings


def profile_document(found: Profile, since: Sequence[Change]) -> dict[str, Any]:
    """Everything that a profile found, and what changed since an earlier one; ``--against`` reads it back.

    Where several sequence lengths were timed, ``lengths`` holds the shorter ones; all else is of the longest.
    """
    assert found.latency is not None  # latency=True was asked for
    document = _block(found, found.latency)
    if found.latency.shorter:
        document["lengths"] = {str(length): _block(found, one) for length, one in found.latency.shorter.items()}
    if found.details is not None:
        document |= _details(found.details, found.latency.reference_ms)
        document["findings"] = list(profile_findings(found))
    if since:
        document["against"] = _changes(since, found.latency.length)
        shorter = {change.length for change in since} - {found.latency.length}
        for length in shorter:
            document["lengths"][str(length)]["against"] = _changes(since, length)
    return document


def _block(found: Profile, timed: LatencyRange) -> dict[str, Any]:
    """The plans at one sequence length."""
    return {
        "reference_ms": timed.reference_ms,
        "plans": {
            name: {
                "plan": timed.plans[name].to_json(),
                "measured": dict(found.measured[name]),
                "latency": asdict(profile),
                "differs_from_present": name != "present" and beside_present(profile).significant,
            }
            for name, profile in timed.profiles.items()
        },
    }


def _details(details: ProfileDetails, reference_ms: float) -> dict[str, Any]:
    launch = details.traits.launch
    return {
        "attention": {**asdict(details.traits.share), "blocks_with_more": list(details.traits.blocks)},
        "launch": None if launch is None else asdict(launch),
        "kernels": details.kernels,
        "alignment": {"multiples": details.multiples, "unaligned": details.unaligned},
        "per_head": [
            {
                "sites": cost.paths,
                "counts": cost.counts,
                "ratio": cost.ratio.value,
                "ratio_interval": cost.ratio.interval,
                "ms": cost.ratio.value * reference_ms,
                "ms_interval": [end * reference_ms for end in cost.ratio.interval],
            }
            for cost in details.costs
        ],
        "long_sequences": {name: [one.to_json() for one in variants] for name, variants in details.long.items()},
        "per_head_fit": {"plans": details.fitted, "error": None if details.error is None else asdict(details.error)},
    }


def _changes(since: Sequence[Change], length: int | None) -> dict[str, Any]:
    return {change.name: _change(change) for change in since if change.length == length}


def _change(change: Change) -> dict[str, Any]:
    return {
        **asdict(change.comparison),
        "significant": change.comparison.significant,
        "earlier": asdict(change.earlier),
    }
