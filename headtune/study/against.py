"""A profile beside an earlier one of the same plans."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtune.errors import InputError
from headtune.heads import HeadPlan
from headtune.study.profiling import Profile
from headtune.timing import Comparison, LatencyProfile, compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a plan's latency, relative to the present plan's, since an earlier profile.

    Attributes:
        name: of the plan.
        plan: its counts.
        now: its latency.
        earlier: the same, earlier.
        comparison: the ratio to the present plan now, over that of earlier.
    """

    name: str
    plan: HeadPlan
    now: LatencyProfile
    earlier: LatencyProfile
    comparison: Comparison


def read_latencies(path: Path) -> dict[HeadPlan, LatencyProfile]:
    """The latencies by plan in a file that ``headtune measure --json`` wrote.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    remedy = "write one by `headtune measure study.yaml --json > FILE`"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except ValueError as error:
        raise InputError(f"{path}: is no JSON ({error}); {remedy}") from error
    try:
        return dict(map(_entry, document["plans"].values()))
    except (AttributeError, KeyError, TypeError, ValueError, InputError) as error:
        raise InputError(f"{path}: holds no profile ({type(error).__name__}: {error}); {remedy}") from error


def changes(now: Profile, earlier: Mapping[HeadPlan, LatencyProfile]) -> tuple[Change, ...]:
    """Each plan of *now* that was measured earlier too, but for the present one, whose ratio is 1 by definition.

    Raises:
        InputError: the two were measured under different protocols, on different devices, of different models, or have
            no plan in common.
    """
    assert now.latency is not None
    present = now.latency.plans["present"]
    if present not in earlier:
        raise InputError(f"the earlier profile is not of this model, whose present plan is {present}")
    both = {name: plan for name, plan in now.latency.plans.items() if plan in earlier and plan != present}
    if not both:
        raise InputError("the earlier profile has none of these plans beside the present one; measure the same plans")
    return tuple(_change(name, plan, now.latency.profiles[name], earlier[plan]) for name, plan in both.items())


def beside_present(latency: LatencyProfile) -> Comparison:
    """A plan beside the present one, which it was timed in pairs with."""
    return Comparison(ratio=latency.ratio, interval=latency.ratio_interval)


def _change(name: str, plan: HeadPlan, now: LatencyProfile, earlier: LatencyProfile) -> Change:
    return Change(name=name, plan=plan, now=now, earlier=earlier, comparison=compare(now, earlier))


def _entry(entry: Mapping[str, Any]) -> tuple[HeadPlan, LatencyProfile]:
    return HeadPlan.from_json(entry["plan"]), LatencyProfile.from_json(entry["latency"])
