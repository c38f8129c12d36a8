"""A profile for a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from headtune.cli.long_table import long_table
from headtune.cli.terminal import table
from headtune.cli.wording import count, interval, value
from headtune.heads import Limit
from headtune.pareto.objective import is_latency, length_of
from headtune.study import Change, LatencyRange, Profile, ProfileDetails, beside_present, profile_findings
from headtune.study.kernel_findings import few
from headtune.timing import LatencyProfile
from headtune.timing.protocol import Mode

_MODES: Mapping[Mode, str] = {"forward": "forward pass", "train_step": "training step", "decode": "decoded token"}
_MEANING = (
    "× present: each plan against the present one, timed in turn with it, which holds on a busy machine; ms is that "
    "times the present plan's median. p90: nine of ten passes were faster. The present plan is timed against itself, "
    "which shows the noise"
)


def profile_page(found: Profile, limits: Sequence[Limit], since: Sequence[Change]) -> list[RenderableType]:
    """The plans at each sequence length, what a head costs where, the conditions, and what follows from all this."""
    assert found.latency is not None  # latency=True was asked for
    return [
        *(part for timed in found.latency.by_length for part in (_plans(found, timed), "")),
        *([] if found.details is None else [*_costs(found.details, found.latency), *long_table(found.details)]),
        *(part for timed in found.latency.by_length for part in _against(since, timed, _several(found.latency))),
        *_conditions(found.latency),
        _MEANING,
        *_limits(found, limits),
        *_follows(found),
    ]


def _plans(found: Profile, timed: LatencyRange) -> RenderableType:
    assert found.latency is not None
    title = f"plan at length {timed.length}" if _several(found.latency) else "plan"
    columns = ("× present", "95 % interval", "differs", "ms", "95 % interval", "p90 ms", "pairs", "parameters")
    rows = table(title, "counts", *columns, numbers=len(columns))
    for name, profile in timed.profiles.items():
        ms = timed.reference_ms
        low, high = profile.ratio_interval
        rows.add_row(
            name,
            timed.plans[name].label,
            value(profile.ratio),
            interval((low, high)),
            "" if name == "present" else _differs(profile),
            value(profile.ratio * ms),
            interval((low * ms, high * ms)),
            value(profile.p90_ms / profile.median_ms * profile.ratio * ms),
            str(profile.samples),
            f"{found.measured[name]['parameters']:,.0f}",
        )
    return rows


def _several(timed: LatencyRange) -> bool:
    """Whether it has to be said at which of several lengths a number was timed."""
    return bool(timed.shorter)


def _differs(profile: LatencyProfile) -> str:
    if not beside_present(profile).significant:
        return "no"
    return "faster" if profile.ratio < 1 else "slower"


def _costs(details: ProfileDetails, timed: LatencyRange) -> list[RenderableType]:
    """One row a site, or a group of them that share a count or are alike."""
    if not details.costs:
        return []
    reference_ms = timed.reference_ms
    title = f"a head more at (length {timed.length})" if _several(timed) else "a head more at"
    columns = ("sites", "heads", "ms a head", "95 % interval", "% of the pass", "95 % interval")
    rows = table(title, *columns, numbers=len(columns))
    for cost in details.costs:
        low, high = cost.ratio.interval
        rows.add_row(
            cost.name,
            str(len(cost.paths)),
            f"{cost.counts[0]} – {cost.counts[1]}",
            value(cost.ratio.value * reference_ms),
            interval((low * reference_ms, high * reference_ms)),
            f"{100 * cost.ratio.value:.2f}",
            f"{100 * low:.2f} – {100 * high:.2f}",
        )
    fit = f"fitted on {count(details.fitted, 'measured plan')}"
    if details.error is not None:
        fit += f"; on plans that it had not seen it was off by {details.error.mape:.1%}"
    return [rows, fit, ""]


def _against(since: Sequence[Change], timed: LatencyRange, several: bool) -> list[RenderableType]:
    """What became of each plan since the earlier profile, at one length."""
    since = [change for change in since if change.length == timed.length]
    if not since:
        return []
    title = f"against the earlier profile, length {timed.length}" if several else "against the earlier profile"
    columns = ("× present earlier", "× present now", "now / earlier", "interval")
    rows = table(title, *columns, "", numbers=len(columns) + 1)
    for change in since:
        rows.add_row(
            change.name,
            value(change.earlier.ratio),
            value(change.now.ratio),
            value(change.comparison.ratio),
            interval(change.comparison.interval),
            "differs" if change.comparison.significant else "no significant difference",
        )
    unknown = [name for name in timed.profiles if name != "present" and name not in {one.name for one in since}]
    return [rows, *([f"not in the earlier profile: {', '.join(unknown)}"] if unknown else []), ""]


def _limits(found: Profile, limits: Sequence[Limit]) -> list[str]:
    """What the study allows, in the units of the table, as far as it was measured."""
    lines = []
    for limit in limits:
        known = {name: metrics[limit.metric] for name, metrics in found.measured.items() if limit.metric in metrics}
        most = limit.resolve(known).max if limit.max is None and limit.of in known else None
        here = "" if most is None else f", which is {value(most)} here"
        bound = limit.max if most is None else most
        broken = [name for name in known if bound is not None and _most(found, limit.metric, name) > bound]
        lines.append(f"the study's limit: {limit}{here}{f'; broken by {few(broken)}' if broken else ''}")
    return lines


def _most(found: Profile, metric: str, name: str) -> float:
    """What a plan is judged by: a latency by the upper end of its interval, as the search does."""
    if not is_latency(metric) or found.latency is None:
        return found.measured[name][metric]
    timed = found.latency.at(length_of(metric))
    return timed.profiles[name].ratio_interval[1] * timed.reference_ms


def _follows(found: Profile) -> list[str]:
    sentences = profile_findings(found)
    assert found.latency is not None
    where = f", at length {found.latency.length}" if _several(found.latency) else ""
    return ["", f"what follows{where}:", *(f"- {sentence}" for sentence in sentences)] if sentences else []


def _conditions(timed: LatencyRange) -> list[str]:
    """The protocol that every row shares, and what to know of some rows."""
    first = next(iter(timed.profiles.values()))
    protocol = first.protocol
    lengths = [str(one.length) for one in timed.by_length if one.length is not None]
    length = f", {'lengths' if _several(timed) else 'length'} {' and '.join(lengths)}" if lengths else ""
    extras = [name for name, on in (("compiled", protocol.compile), ("CUDA graphs", protocol.cuda_graphs)) if on]
    autocast = "" if protocol.autocast is None else f" with autocast to {protocol.autocast}"
    threads = count(protocol.threads or 1, "thread")
    sizes = f"batch of {protocol.batch_size}{length}"
    how = [threads, f"{protocol.dtype}{autocast}", sizes, _MODES[protocol.mode], *extras]
    line = f"{first.device_name} ({protocol.device}), {', '.join(how)}"
    doubts: dict[str, list[str]] = {}
    for one in timed.by_length:
        for name, profile in one.profiles.items():
            for doubt in profile.doubts:
                doubts.setdefault(doubt, []).append(f"{name} at {one.length}" if _several(timed) else name)
    return [line, *(f"mind {', '.join(names)}: {doubt}" for doubt, names in doubts.items())]
