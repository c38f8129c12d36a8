"""What is achievable, known before any training; and whether a budget can be met at all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headtune.errors import Infeasible
from headtune.heads import HeadPlan, HeadRanking, Limit
from headtune.pareto.objective import is_latency, length_of
from headtune.study.checking import Checked
from headtune.study.detailing import Measuring, detail
from headtune.study.details import ProfileDetails
from headtune.study.preparing import trial_setup
from headtune.study.record import LatencyRange
from headtune.study.spec import StudySpec
from headtune.timing.lengths import every_length
from headtune.trial.contract import Executor, Observer, Silent
from headtune.trial.forks import one_process
from headtune.trial.measuring import Candidate, Profiled, profile_candidates
from headtune.trial.params import baseline_values

PROFILED = ("smallest", "rule", "present", "largest")
"""The baselines whose latency spans what is achievable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What was measured of some plans before any training.

    Attributes:
        measured: plan name → metric → value; a latency is ratio × reference.
        latency: plans and profiles by name, with the reference; ``None`` where no latency was asked for.
        details: what the pass is made of and what a head costs where; ``None`` where it was not asked for.
    """

    measured: Mapping[str, Mapping[str, float]]
    latency: LatencyRange | None
    details: ProfileDetails | None = None


@one_process()
def profile(
    spec: StudySpec,
    checked: Checked,
    executor: Executor,
    observer: Observer | None = None,
    plans: Mapping[str, HeadPlan] | None = None,
    latency: bool | None = None,
    ranking: HeadRanking | None = None,
    details: bool = False,
) -> Profile:
    """Measure the smallest, the rule's, the present and the largest plan in a worker like the trials'.

    Every plan is timed in pairs with the present one, whose median is the reference from then on.

    Args:
        plans: what to measure instead of :data:`PROFILED`; the present plan is always added.
        latency: whether to time; by default where an objective or a limit needs it.
        ranking: which trained heads stay, where they are kept; it does not move what is measured.
        details: whether to take the pass apart and to time more plans, which tell what a head costs at each site.
    """
    observer = observer or Silent()
    observer.phase("profile", "timing plans before any training")
    chosen = dict(plans) if plans is not None else {name: checked.baselines[name] for name in PROFILED}
    chosen.setdefault("present", checked.baselines["present"])
    setup = trial_setup(spec, checked, ranking=ranking)
    if latency or details:
        setup = replace(setup, timed={**every_length(setup.latency), **setup.timed})
    elif latency is not None:
        setup = replace(setup, timed={})
    distinct = list(dict.fromkeys(chosen.values()))
    candidates = [Candidate(plan=plan, params=baseline_values(spec.params)) for plan in distinct]
    found = dict(zip(distinct, executor.call(profile_candidates, setup, candidates), strict=True))
    seen = _profile(chosen, {name: found[plan] for name, plan in chosen.items()}, setup.timed)
    if not details:
        return seen
    work = Measuring.at_longest(
        spec, checked.space, setup, executor, say=lambda doing: observer.phase("profile", doing)
    )
    known = {plan: one.latency for plan, one in found.items() if one.latency is not None}
    return replace(seen, details=detail(work, chosen, known))


def _profile(plans: Mapping[str, HeadPlan], found: Mapping[str, Profiled], timed: Mapping[str, int | None]) -> Profile:
    ranges = {length: _range(plans, found, length) for length in found["present"].latencies}
    span = None
    if ranges:
        *shorter, longest = ranges
        span = replace(ranges[longest], shorter={length: ranges[length] for length in shorter if length is not None})
    reference_ms = {metric: ranges[length].reference_ms for metric, length in timed.items()}
    return Profile(measured={name: seen.metrics(reference_ms) for name, seen in found.items()}, latency=span)


def _range(plans: Mapping[str, HeadPlan], found: Mapping[str, Profiled], length: int | None) -> LatencyRange:
    profiles = {name: seen.latencies[length] for name, seen in found.items()}
    return LatencyRange(plans=plans, profiles=profiles, reference_ms=profiles["present"].median_ms)


def resolve_limits(limits: tuple[Limit, ...], seen: Profile) -> dict[str, float]:
    """Metric → greatest allowed value, with ratios resolved against what was measured.

    Raises:
        Infeasible: no profiled plan can meet a limit; the message says what is achievable.
    """
    resolved, problems = {}, []
    for limit in limits:
        values = {name: metrics[limit.metric] for name, metrics in seen.measured.items() if limit.metric in metrics}
        most = limit.resolve(values).max
        assert most is not None
        resolved[limit.metric] = most
        least = {name: _lower_end(limit.metric, name, value, seen) for name, value in values.items()}
        if min(least.values()) > most:
            problems.append(_unmet(limit, most, values))
    if problems:
        raise Infeasible(*problems)
    return resolved


def _lower_end(metric: str, name: str, value: float, seen: Profile) -> float:
    if not is_latency(metric) or seen.latency is None:
        return value
    found = seen.latency.at(length_of(metric))
    return min(value, found.profiles[name].ratio_interval[0] * found.reference_ms)


def _unmet(limit: Limit, most: float, values: Mapping[str, float]) -> str:
    low, high = min(values, key=lambda name: values[name]), max(values, key=lambda name: values[name])
    return (
        f"no plan can meet {limit} (at most {most:.4g}): achievable is {values[low]:.4g} ({low}) to "
        f"{values[high]:.4g} ({high}); raise the limit, or make the model smaller in other ways"
    )
