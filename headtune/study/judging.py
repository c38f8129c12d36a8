"""From retrained finalists to a recommendation."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from headtune.pareto import Objective, ParetoFront
from headtune.study.noise import SeedNoise
from headtune.study.record import Finalist, Verdict

NOTHING_FEASIBLE = "no finalist meets every constraint and lies in the space"

_NAMES = {"rule": "the rule of thumb", "present": "the present counts"}

_FIRST = {"latency_ms": "fastest", "parameters": "smallest", "peak_memory_mb": "leanest"}


def judge(
    finalists: Sequence[Finalist], objectives: Sequence[Objective], budget: bool, *, exact: bool = False
) -> tuple[tuple[Finalist, ...], Verdict]:
    """Mark ties with the best and choose.

    With a budget the fastest plan that is not significantly worse than the best is chosen; without one the knee of the
    finalists' front; with fewer than three points on it, the best quality. Of plans that tie with the chosen one, the
    fastest is taken. "Fast" means the first measured objective.

    Args:
        finalists: every finalist, with at least one seed.
        objectives: the study's objectives, one of them a quality.
        budget: whether a limit on a measured metric is given.
        exact: whether nothing is trained, so that a plan has one quality and no noise.
    """
    quality = next(goal for goal in objectives if not goal.measured)
    speed = next((goal for goal in objectives if goal.measured), None)
    able = [index for index, finalist in enumerate(finalists) if finalist.able]
    if not able:
        return tuple(finalists), Verdict(recommended=None, rule=NOTHING_FEASIBLE)
    noise = SeedNoise.none() if exact else SeedNoise.of([one.quality[quality.metric] for one in finalists])
    marked = _mark_ties(finalists, able, quality, noise)
    best = min(able, key=lambda index: quality.loss(mean(marked[index].quality[quality.metric])))
    chosen, rule = (best, "the best") if budget else _knee(marked, able, objectives, best)
    faster = _fastest_tie(marked, able, chosen, quality, speed, noise)
    findings = _findings(marked, faster, quality, noise)
    return marked, Verdict(
        recommended=faster, rule=_rule(rule, faster != chosen, budget, quality, speed), findings=findings
    )


def _rule(chosen: str, by_tie: bool, budget: bool, quality: Objective, speed: Objective | None) -> str:
    within = " within the constraints" if budget else ""
    if by_tie and speed is not None:
        first = _FIRST[speed.metric.partition("@")[0]]
        return f"the {first} plan{within} whose {quality.metric} is not significantly worse than {chosen}"
    return f"{chosen} {quality.metric}{within}" if chosen == "the best" else chosen


def _value(finalist: Finalist, goal: Objective) -> float:
    return finalist.measured[goal.metric] if goal.measured else mean(finalist.quality[goal.metric])


def _mark_ties(
    finalists: Sequence[Finalist], able: Sequence[int], quality: Objective, noise: SeedNoise
) -> tuple[Finalist, ...]:
    rows = [finalist.quality[quality.metric] for finalist in finalists]
    best = min((rows[index] for index in able), key=lambda row: quality.loss(mean(row)))
    return tuple(
        replace(finalist, tied_with_best=not (quality.better(mean(best), mean(row)) and noise.differ(row, best)))
        for row, finalist in zip(rows, finalists, strict=True)
    )


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
    quality: Objective,
    speed: Objective | None,
    noise: SeedNoise,
) -> int:
    if speed is None:
        return chosen
    values = finalists[chosen].quality[quality.metric]
    ties = [index for index in able if not noise.differ(finalists[index].quality[quality.metric], values)]
    return min([chosen, *ties], key=lambda index: speed.loss(finalists[index].measured[speed.metric]))


def _findings(finalists: Sequence[Finalist], chosen: int, quality: Objective, noise: SeedNoise) -> tuple[str, ...]:
    rows = [finalist.quality[quality.metric] for finalist in finalists]
    if noise.exact:
        return _exact_findings(finalists, chosen, quality)
    if noise.freedom == 0:
        return (
            f"Each finalist was trained on one seed only: no difference in {quality.metric} can be told from noise.",
        )
    found = []
    if not any(noise.differ(a, b) for index, a in enumerate(rows) for b in rows[:index]):
        found.append(
            f"Heads make no significant difference to {quality.metric} here: the finalists differ by at most "
            f"{max(map(mean, rows)) - min(map(mean, rows)):.4g}, and seeds alone spread them by {noise.sd:.4g}."
        )
    for label in _NAMES:
        named = next((finalist for finalist in finalists if label in finalist.labels), None)
        if named is not None and named is not finalists[chosen]:
            found.append(_against(finalists[chosen], named, label, quality, noise))
    return tuple(found)


def _exact_findings(finalists: Sequence[Finalist], chosen: int, quality: Objective) -> tuple[str, ...]:
    found = ["Nothing was trained: each plan was scored once, and equal means exactly equal."]
    ours = finalists[chosen]
    for label, name in _NAMES.items():
        named = next((finalist for finalist in finalists if label in finalist.labels), None)
        if named is not None and named is not ours:
            a, b = mean(ours.quality[quality.metric]), mean(named.quality[quality.metric])
            found.append(
                f"Against {name} ({named.plan.label}), {ours.plan.label} changes {quality.metric} by {a - b:+.4g} "
                f"({a:.4g} against {b:.4g})."
            )
    return tuple(found)


def _against(chosen: Finalist, other: Finalist, label: str, quality: Objective, noise: SeedNoise) -> str:
    name = _NAMES[label]
    a, b = chosen.quality[quality.metric], other.quality[quality.metric]
    gap = mean(a) - mean(b)
    sure = "significant" if noise.differ(a, b) else "a tie within the noise"
    others = [param for param, value in chosen.params.items() if other.params.get(param) != value]
    if others:
        sure += f"; {' and '.join(others)} changed too, so the change is not of heads alone"
    return (
        f"Against {name} ({other.plan.label}), {chosen.plan.label} changes {quality.metric} by {gap:+.4g} "
        f"({mean(a):.4g} against {mean(b):.4g} over {len(a)} seeds; spread over seeds {noise.sd:.4g}): {sure}."
    )
