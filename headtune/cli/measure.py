"""``headtune measure``."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import show, show_json, table
from headtune.cli.wording import count, value

if TYPE_CHECKING:
    from headtune.heads import Limit
    from headtune.study import Profile
    from headtune.timing import LatencyProfile

_MEANING = (
    "× present: each plan against the present one, timed in turn with it, which holds on a busy machine; ms is that "
    "times the present plan's median. p90: nine of ten passes were faster, as timed now"
)


def measure(
    study: StudyPath,
    plans: Annotated[
        list[str] | None,
        typer.Option(
            "--plan",
            metavar="COUNTS",
            help=r"A plan to time, heads\[/kv_heads]\[xhead_dim] by path; the last match wins: '*=8/2 encoder.*=4'. "
            "Repeat it for more. Without it: the smallest, the rule of thumb's, the present and the largest plan.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Time plans against the present one, as the search would, without training.

    Example: headtune measure study.yaml --plan "*=2" --plan "*=8"
    """
    with guard(verbose):
        from headtune.config import load_study

        spec = load_study(study, overrides or ())
        from headtune.cli.observers import watching
        from headtune.heads import HeadPlan
        from headtune.study import check, measuring_executor, profile

        with watching() as observer:
            checked = check(spec, observer)
            hold, maximum = spec.space.hold, spec.space.maximum
            chosen = {text: HeadPlan.parse(text, checked.sites, hold=hold, maximum=maximum) for text in plans or ()}
            with closing(measuring_executor(spec, observer)) as executor:
                found = profile(spec, checked, executor, observer, plans=chosen or None, latency=True)
        if as_json:
            show_json(_document(found))
        else:
            show(*_page(found, spec.limits))


def _page(found: "Profile", limits: Sequence["Limit"]) -> list[RenderableType]:
    assert found.latency is not None  # latency=True was asked for
    columns = ("× present", "95 % interval", "ms", "95 % interval", "p90 ms", "pairs", "parameters")
    rows = table("plan", "counts", *columns, numbers=len(columns))
    for name, profile in found.latency.profiles.items():
        parameters = f"{found.measured[name]['parameters']:,.0f}"
        rows.add_row(name, found.latency.plans[name].label, *_cells(profile, found.latency.reference_ms), parameters)
    return [rows, "", *_conditions(found.latency.profiles), _MEANING, *_limits(found, limits)]


def _limits(found: "Profile", limits: Sequence["Limit"]) -> list[str]:
    """What the study allows, in the units of the table, as far as it was measured."""
    lines = []
    for limit in limits:
        known = {name: metrics[limit.metric] for name, metrics in found.measured.items() if limit.metric in metrics}
        most = limit.resolve(known).max if limit.max is None and limit.of in known else None
        lines.append(f"the study's limit: {limit}" + ("" if most is None else f", which is {value(most)} here"))
    return lines


def _cells(profile: "LatencyProfile", reference_ms: float) -> tuple[str, ...]:
    low, high = profile.ratio_interval
    return (
        value(profile.ratio),
        _interval((low, high)),
        value(profile.ratio * reference_ms),
        _interval((low * reference_ms, high * reference_ms)),
        value(profile.p90_ms),
        str(profile.samples),
    )


def _interval(bounds: tuple[float, float]) -> str:
    return f"{value(bounds[0])} – {value(bounds[1])}"


def _conditions(profiles: "Mapping[str, LatencyProfile]") -> list[str]:
    """The protocol that every row shares, and what to know of some rows."""
    first = next(iter(profiles.values()))
    protocol = first.protocol
    length = "" if protocol.seq_len is None else f", length {protocol.seq_len}"
    lines = [
        f"{first.device_name} ({protocol.device}), {count(protocol.threads or 1, 'thread')}, {protocol.dtype}, "
        f"batch of {protocol.batch_size}{length}, {protocol.mode} pass"
    ]
    unsettled = [name for name, profile in profiles.items() if not profile.settled]
    contended = [name for name, profile in profiles.items() if profile.contended]
    if unsettled:
        lines.append(
            f"not as precise as the protocol wants, for the time it had; mind the intervals: {', '.join(unsettled)}"
        )
    if contended:
        lines.append(f"timed while others kept the device busy: {', '.join(contended)}")
    return lines


def _document(found: "Profile") -> dict[str, object]:
    assert found.latency is not None  # latency=True was asked for
    return {
        "reference_ms": found.latency.reference_ms,
        "plans": {
            name: {
                "plan": found.latency.plans[name].to_json(),
                "measured": dict(found.measured[name]),
                "latency": asdict(profile),
            }
            for name, profile in found.latency.profiles.items()
        },
    }
