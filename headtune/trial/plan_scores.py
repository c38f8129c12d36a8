"""Scoring the plans of a space by a cheap judge: all of them, or a sample that gathers where the front is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import Any

from headtune.heads import HeadPlan, SearchSpace
from headtune.pareto import Objective, non_dominated

MOST = 500
"""Plans that are scored; a space that holds no more is scored whole."""

_TRIES = 50
"""So many times the plans that are wanted may be drawn, before a space is taken to have no others near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanScore:
    """A plan, as a cheap judge sees it.

    Attributes:
        quality: what ``evaluate`` said.
        costs: each measured objective or limit → a number that orders plans by it; see
            :class:`headtune.trial.plan_costs.PlanCosts`.
    """

    plan: HeadPlan
    quality: Mapping[str, float]
    costs: Mapping[str, float]

    def values(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        """In the objectives' order; empty where one is not finite."""
        found = tuple((self.costs if goal.measured else self.quality)[goal.metric] for goal in objectives)
        return found if all(map(isfinite, found)) else ()

    def to_json(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return {"plan": self.plan.to_json(), "quality": dict(self.quality), "costs": dict(self.costs)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PlanScore":
        """The inverse of :meth:`to_json`."""
        return cls(plan=HeadPlan.from_json(data["plan"]), quality=data["quality"], costs=data["costs"])


def scored(
    space: SearchSpace,
    score: Callable[[HeadPlan], PlanScore],
    objectives: Sequence[Objective],
    rng: Random,
    most: int = MOST,
) -> tuple[PlanScore, ...]:
    """The scores of every plan, or of *most*: half of them drawn at random, the others mutations of the front's.

    A mutation has another choice in one of the space's dimensions; its parent is any plan of the front so far.
    """
    if space.size <= most:
        return tuple(map(score, space))
    found = {plan: score(plan) for plan in (space.smallest, space.largest)}
    for draw in range(_TRIES * most):
        if len(found) == most:
            break
        random = draw < most // 2
        plan = (
            space.sample(rng) if random else _mutated(space, rng.choice(_front(list(found.values()), objectives)), rng)
        )
        if plan not in found:
            found[plan] = score(plan)
    return tuple(found.values())


def _front(scores: Sequence[PlanScore], objectives: Sequence[Objective]) -> list[HeadPlan]:
    """The plans that no other dominates; all where none can be compared."""
    sound = [(one.plan, values) for one in scores if (values := one.values(objectives))]
    if not sound:
        return [one.plan for one in scores]
    return [sound[at][0] for at in non_dominated([values for _, values in sound], objectives)]


def _mutated(space: SearchSpace, plan: HeadPlan, rng: Random) -> HeadPlan:
    index = list(space.index(plan) or ())
    free = [at for at, dimension in enumerate(space.dimensions) if len(dimension.choices) > 1]
    at = rng.choice(free)
    index[at] = rng.choice([other for other in range(len(space.dimensions[at].choices)) if other != index[at]])
    return space.plan(index)
