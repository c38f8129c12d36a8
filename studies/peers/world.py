"""One repeat of a comparison: a table of which some seeds may be drawn, and the others judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
from shrinking import shrunk
from tables import timings, trainings
from tasks import RECORDINGS, Recording

from headtune import Objective
from headtune.pareto import hypervolume, non_dominated, reference_point

LATENCY = Objective(metric="latency_ms", direction="minimize")


@dataclass(frozen=True)
class Table:
    """A recorded table.

    Attributes:
        name: of its files.
        recording: what it records.
        curves: (plan, seed) → the quality after each epoch.
        finals: (plan, seed) → the quality in the end.
        latency: plan → latency over the present plan's.
    """

    name: str
    recording: Recording
    curves: Mapping[tuple[str, int], Sequence[float]]
    finals: Mapping[tuple[str, int], float]
    latency: Mapping[str, float]

    @classmethod
    def read(cls, name: str) -> "Table":
        """The table of that name; an error where it is not whole."""
        rows, timed, recording = trainings(name), timings(name), RECORDINGS[name]
        plans = len(recording.heads) ** len(rows[0].plan.split("-")) if rows else 1
        if len(rows) < plans * recording.seeds or len(timed) < plans:
            raise SystemExit(f"{name} is not recorded as a whole: python studies/peers/record.py {name}")
        return cls(
            name=name,
            recording=recording,
            curves={(one.plan, one.seed): one.curve for one in rows},
            finals={(one.plan, one.seed): one.final for one in rows},
            latency={one.plan: one.ratio for one in timed},
        )

    @property
    def plans(self) -> tuple[str, ...]:
        """Every plan, in order."""
        return tuple(self.latency)

    @property
    def sites(self) -> int:
        """How many counts a plan has."""
        return len(self.plans[0].split("-"))

    @property
    def objectives(self) -> tuple[Objective, Objective]:
        """Quality and latency."""
        return self.recording.quality, LATENCY


@dataclass(frozen=True)
class World:
    """What one repeat of one comparison plays in.

    Every plan's trainings are dealt by a lot of their own, as if each had a seed of its own: plans that share a seed
    share its luck, and a search that draws only such plans would learn what that seed prefers.

    Attributes:
        table: the recorded trainings.
        drawn: plan → seeds that searches train it on, in the order in which its trainings take them.
        judging: plan → seeds that only the score knows.
        budget: greatest latency of a feasible plan, over the present plan's; ``None`` for no limit.
    """

    table: Table
    drawn: Mapping[str, Sequence[int]]
    judging: Mapping[str, Sequence[int]]
    budget: float | None = None

    @classmethod
    def of(cls, table: Table, repeat: int, budget: float | None = None) -> "World":
        """The *repeat*-th world of a table."""
        rng, seeds = Random(repeat), range(table.recording.seeds)
        dealt = {plan: rng.sample(seeds, len(seeds)) for plan in table.plans}
        judges = len(seeds) // 2 + 1
        return cls(
            table=table,
            drawn={plan: order[judges:] for plan, order in dealt.items()},
            judging={plan: order[:judges] for plan, order in dealt.items()},
            budget=budget,
        )

    def feasible(self, plan: str) -> bool:
        """Whether the plan is fast enough."""
        return self.budget is None or self.table.latency[plan] <= self.budget

    def true(self, plan: str) -> tuple[float, float]:
        """The plan's quality by the held-out seeds, and its latency."""
        return self._qualities[plan], self.table.latency[plan]

    def worth(self, claimed: Sequence[str]) -> float:
        """The share of the true feasible front's hypervolume that the claimed plans have in truth."""
        values = [self.true(plan) for plan in claimed if self.feasible(plan)]
        return hypervolume(values, self.table.objectives, self.reference) / self._whole if values else 0.0

    def front(self, observed: Mapping[str, Sequence[float]]) -> list[str]:
        """The plans that none of the others dominates, by what a search observed of them."""
        plans = list(observed)
        return [plans[index] for index in non_dominated(list(observed.values()), self.table.objectives)]

    @cached_property
    def reference(self) -> tuple[float, ...]:
        """The nadir of all feasible plans, a tenth beyond."""
        return reference_point([self.true(plan) for plan in self._allowed], self.table.objectives)

    @cached_property
    def _qualities(self) -> dict[str, float]:
        """Without shrinking, the best of many noisy means would be a front that no plan has."""
        plans = self.table.plans
        finals = np.array([[self.table.finals[plan, seed] for seed in self.judging[plan]] for plan in plans])
        heads = np.array([[int(count) for count in plan.split("-")] for plan in plans])
        return dict(zip(plans, shrunk(finals, np.log2(heads)).tolist(), strict=True))

    @cached_property
    def _allowed(self) -> tuple[str, ...]:
        return tuple(plan for plan in self.table.plans if self.feasible(plan))

    @cached_property
    def _whole(self) -> float:
        best = self.front({plan: self.true(plan) for plan in self._allowed})
        return hypervolume([self.true(plan) for plan in best], self.table.objectives, self.reference)
