"""From retrained finalists to a recommendation."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from statistics import mean

from headtune.pareto import Objective, ParetoFront
from headtune.study.chances import Seen, front_probabilities, timed, trained
from headtune.study.noise import SeedNoise
from headtune.study.racing import Pair
from headtune.study.record import Finalist, Verdict
from headtune.study.sentences import exact_findings, findings

NOTHING_FEASIBLE = "no finalist meets every constraint and lies in the space"

_FIRST = {"latency_ms": "fastest", "parameters": "smallest", "peak_memory_mb": "leanest"}


def judge(
    finalists: Sequence[Finalist],
    objectives: Sequence[Objective],
    budget: bool,
    *,
    better: Mapping[str, AbstractSet[Pair]],
    best: int | None = None,
    exact: bool = False,
) -> tuple[tuple[Finalist, ...], Verdict]:
    """Mark ties with the best and choose.

    With a budget the fastest plan that is not significantly worse than the best is chosen; without one the knee of the
    finalists' front; with fewer than three points on it, the best quality. Of plans that tie with the chosen one, the
    fastest is taken. "Fast" means the first measured objective.

    Args:
        finalists: every finalist, with at least one seed.
        objectives: the study's objectives, one of them a quality.
        budget: whether a limit on a measured metric is given.
        better: metric → pairs of finalists that differ beyond the noise, the better one first.
        best: the finalist of the best quality; of those that may be recommended, the one of the best mean if ``None``.
        exact: whether nothing is trained, so that a plan has one quality and no noise.
    """
    quality = next(goal for goal in objectives if not goal.measured)
    speed = next((goal for goal in objectives if goal.measured), None)
    able = [index for index, finalist in enumerate(finalists) if finalist.able]
    found = {metric: tuple(sorted(pairs)) for metric, pairs in better.items()}
    if not able:
        return tuple(finalists), Verdict(recommended=None, rule=NOTHING_FEASIBLE, better=found)
    if best not in able:
        best = min(able, key=lambda index: quality.loss(mean(finalists[index].quality[quality.metric])))
    worse = better.get(quality.metric, frozenset())
    marked = _marked(finalists, objectives, able, best, worse, exact=exact)
    chosen, rule = (best, "the best") if budget else _knee(marked, able, objectives, best)
    faster = _fastest_tie(marked, able, chosen, speed, worse)
    said = exact_findings if exact else findings
    return marked, Verdict(
        recommended=faster,
        rule=_rule(rule, faster != chosen, budget, quality, speed),
        findings=said(marked, faster, quality, worse),
        better=found,
    )


def exactly(finalists: Sequence[Finalist], objectives: Sequence[Objective]) -> dict[str, frozenset[Pair]]:
    """The differences of finalists without noise: metric → pairs of unequal values, the better one first."""
    directions = {metric: 1.0 for one in finalists for metric in one.test}
    directions |= {goal.metric: goal.loss(1.0) for goal in objectives if not goal.measured}
    found = {}
    for metric, sign in directions.items():
        values = [{**one.quality, **one.test}.get(metric, ()) for one in finalists]
        losses = {index: sign * mean(row) for index, row in enumerate(values) if row}
        found[metric] = frozenset((a, b) for a in losses for b in losses if losses[a] < losses[b])
    return found


def _rule(chosen: str, by_tie: bool, budget: bool, quality: Objective, speed: Objective | None) -> str:
    within = " within the constraints" if budget else ""
    if by_tie and speed is not None:
        first = _FIRST[speed.metric.partition("@")[0]]
        return f"the {first} plan{within} whose {quality.metric} is not significantly worse than {chosen}"
    return f"{chosen} {quality.metric}{within}" if chosen == "the best" else chosen


def _value(finalist: Finalist, goal: Objective) -> float:
    return finalist.measured[goal.metric] if goal.measured else mean(finalist.quality[goal.metric])


def _marked(
    finalists: Sequence[Finalist],
    objectives: Sequence[Objective],
    able: Sequence[int],
    best: int,
    worse: AbstractSet[Pair],
    *,
    exact: bool,
) -> tuple[Finalist, ...]:
    """The finalists with their ties with the best, and how probably each is on the front."""
    chances = dict.fromkeys(range(len(finalists)), 0.0) | _chances(finalists, objectives, able, exact=exact)
    return tuple(
        replace(finalist, tied_with_best=(best, index) not in worse, front_probability=chances[index])
        for index, finalist in enumerate(finalists)
    )


def _chances(
    finalists: Sequence[Finalist], objectives: Sequence[Objective], able: Sequence[int], *, exact: bool
) -> dict[int, float | None]:
    noises = {
        goal.metric: SeedNoise.of([finalist.quality[goal.metric] for finalist in finalists])
        for goal in objectives
        if not goal.measured
    }
    if not exact and not all(noise.freedom for noise in noises.values()):
        return dict.fromkeys(able)

    def seen(index: int, goal: Objective) -> Seen:
        one = finalists[index]
        if goal.measured:
            return timed(goal, one.measured[goal.metric], one.latency, one.shorter)
        values = one.quality[goal.metric]
        return Seen(loss=goal.loss(mean(values))) if exact else trained(goal, values, noises[goal.metric], index)

    found = front_probabilities([[seen(index, goal) for goal in objectives] for index in able])
    return dict(zip(able, found, strict=True))


def _knee(
    finalists: Sequence[Finalist], able: Sequence[int], objectives: Sequence[Objective], best: int
) -> tuple[int, str]:
    points = [([_value(finalists[index], goal) for goal in objectives], index) for index in able]
    front = ParetoFront.of(objectives, points)
    if len({point.values for point in front}) < 3:
        return best, "the best"
    return front.knee(), "the knee of the front"


def _fastest_tie(
    finalists: Sequence[Finalist],
    able: Sequence[int],
    chosen: int,
    speed: Objective | None,
    worse: AbstractSet[Pair],
) -> int:
    """Of the chosen plan and those that are neither worse nor better beyond the noise, the fastest."""
    if speed is None:
        return chosen
    ties = [index for index in able if not worse & {(chosen, index), (index, chosen)}]
    return min([chosen, *ties], key=lambda index: speed.loss(finalists[index].measured[speed.metric]))
