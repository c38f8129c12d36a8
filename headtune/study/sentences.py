"""What a verdict says of noise and of the plans that everybody knows, in plain sentences."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from statistics import mean

from headtune.pareto import Objective
from headtune.study.noise import SeedNoise
from headtune.study.racing import Pair
from headtune.study.record import Finalist

_NAMES = {"rule": "the rule of thumb", "present": "the present counts"}


def findings(
    finalists: Sequence[Finalist], chosen: int, quality: Objective, better: AbstractSet[Pair]
) -> tuple[str, ...]:
    """What seeds tell of the finalists.

    Args:
        finalists: all of them.
        chosen: the recommended one.
        quality: what is judged.
        better: pairs that differ beyond the noise, the better one first.
    """
    rows = [finalist.quality[quality.metric] for finalist in finalists]
    noise = SeedNoise.of(rows)
    if noise.freedom == 0:
        return (
            f"Each finalist was trained on one seed only: no difference in {quality.metric} can be told from noise.",
        )
    found = []
    if not better:
        found.append(
            f"Heads make no significant difference to {quality.metric} here: the finalists differ by at most "
            f"{max(map(mean, rows)) - min(map(mean, rows)):.4g}, and seeds alone spread them by {noise.sd:.4g}."
        )
    for label in _NAMES:
        named = next((index for index, finalist in enumerate(finalists) if label in finalist.labels), None)
        if named is not None and named != chosen:
            sure = bool({(chosen, named), (named, chosen)} & better)
            found.append(_against(finalists[chosen], finalists[named], label, quality, noise, sure=sure))
    return tuple(found)


def exact_findings(
    finalists: Sequence[Finalist], chosen: int, quality: Objective, _: AbstractSet[Pair]
) -> tuple[str, ...]:
    """The same where nothing was trained, so that there is no noise."""
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


def _against(chosen: Finalist, other: Finalist, label: str, quality: Objective, noise: SeedNoise, *, sure: bool) -> str:
    name = _NAMES[label]
    a, b = chosen.quality[quality.metric], other.quality[quality.metric]
    gap = mean(a) - mean(b)
    judged = "significant" if sure else "a tie within the noise"
    others = [param for param, value in chosen.params.items() if other.params.get(param) != value]
    if others:
        judged += f"; {' and '.join(others)} changed too, so the change is not of heads alone"
    seeds = f"{len(a)} seeds" if len(a) == len(b) else f"{len(a)} and {len(b)} seeds"
    return (
        f"Against {name} ({other.plan.label}), {chosen.plan.label} changes {quality.metric} by {gap:+.4g} "
        f"({mean(a):.4g} against {mean(b):.4g} over {seeds}; spread over seeds {noise.sd:.4g}): {judged}."
    )
