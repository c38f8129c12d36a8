"""A profile beside an earlier one of the same plans."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtune.errors import InputError
from headtune.heads import AttentionSite, HeadPlan
from headtune.study.profiling import Profile
from headtune.study.record import LatencyRange
from headtune.timing import Comparison, LatencyProfile, compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a plan's latency, relative to the present plan's, since an earlier profile.

    Attributes:
        name: of the plan.
        plan: its counts.
        length: the sequence length that both are latencies at; ``None`` where the study names none.
        now: its latency.
        earlier: the same, earlier.
        comparison: the ratio to the present plan now, over that of earlier.
    """

    name: str
    plan: HeadPlan
    length: int | None
    now: LatencyProfile
    earlier: LatencyProfile
    comparison: Comparison


Latencies = Mapping[int | None, Mapping[HeadPlan, LatencyProfile]]
"""Sequence length, ``None`` where there is none → plan → latency."""


def read_latencies(path: Path) -> Latencies:
    """The latencies in a file that ``headtune measure --json`` wrote.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    remedy = "write one by `headtune measure study.yaml --json > FILE`"
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))  # PowerShell's > writes a mark at the beginning
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON ({error}); {remedy}") from error
    try:
        blocks = [*(document["lengths"].values() if "lengths" in document else ()), document]
        return dict(_block(block["plans"]) for block in blocks)
    except (AttributeError, KeyError, TypeError, ValueError, InputError) as error:
        raise InputError(f"{path}: holds no profile ({type(error).__name__}: {error}); {remedy}") from error


def check_known(earlier: Latencies, sites: Sequence[AttentionSite], lengths: Sequence[int | None]) -> None:
    """Make sure, before anything is timed, that an earlier profile is of the same model and lengths.

    Raises:
        InputError: it is not.
    """
    present = HeadPlan.present(sites)
    for length in lengths:
        _before(earlier, length, present)


def changes(now: Profile, earlier: Latencies) -> tuple[Change, ...]:
    """Each plan of *now* that was measured earlier too, but for the present one, whose ratio is 1 by definition.

    Raises:
        InputError: the two were measured under different protocols, at different sequence lengths, on different
            devices, of different models, or have no plan in common.
    """
    assert now.latency is not None
    return tuple(change for found in now.latency.by_length for change in _at_length(found, earlier))


def beside_present(latency: LatencyProfile) -> Comparison:
    """A plan beside the present one, which it was timed in pairs with."""
    return Comparison(ratio=latency.ratio, interval=latency.ratio_interval)


def _before(earlier: Latencies, length: int | None, present: HeadPlan) -> Mapping[HeadPlan, LatencyProfile]:
    if length not in earlier:
        raise InputError(
            f"this profile is of {_lengths([length])}, the earlier one of {_lengths(earlier)}; measure both alike"
        )
    if present not in earlier[length]:
        raise InputError(f"the earlier profile is not of this model, whose present plan is {present}")
    return earlier[length]


def _at_length(now: LatencyRange, earlier: Latencies) -> Iterator[Change]:
    present = now.plans["present"]
    before = _before(earlier, now.length, present)
    both = {name: plan for name, plan in now.plans.items() if plan in before and plan != present}
    if not both:
        raise InputError("the earlier profile has none of these plans beside the present one; measure the same plans")
    for name, plan in both.items():
        ours, theirs = now.profiles[name], before[plan]
        comparison = compare(ours, theirs)
        yield Change(name=name, plan=plan, length=now.length, now=ours, earlier=theirs, comparison=comparison)


def _lengths(lengths: Iterable[int | None]) -> str:
    return " and ".join("no named length" if length is None else f"length {length}" for length in lengths)


def _block(plans: Mapping[str, Any]) -> tuple[int | None, dict[HeadPlan, LatencyProfile]]:
    """The latencies at one length, and which one it is.

    Raises:
        ValueError: there are none.
    """
    if not plans:
        raise ValueError("it has no plans")
    found = {HeadPlan.from_json(one["plan"]): LatencyProfile.from_json(one["latency"]) for one in plans.values()}
    return next((profile.protocol.length for profile in found.values()), None), found
