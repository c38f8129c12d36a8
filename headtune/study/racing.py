"""A race of plans: which of them need another seed before it can be told which is better."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from scipy import special

from headtune.study.noise import Numbers, SeedNoise, gaps, means, threshold

LEVEL = 0.05
"""At most so probably is any difference at all found between plans that are equal."""

FUTILE = 0.05
"""A pair whose difference would be found less probably than this, with all seeds, is given up as a tie."""

Pair = tuple[int, int]
"""Two plans by their indices, the better one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """A plan in the race.

    Attributes:
        losses: repeat, from 1 → the quality, turned so that lower is better; ``None`` for a training that did not come
            to its end.
        cost: what is to be low beside the quality, such as the latency.
        able: whether it may be recommended; else it is only compared with, on the first seeds.
    """

    losses: Mapping[int, float | None]
    cost: float
    able: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a race is run.

    Attributes:
        seeds: with which it starts.
        most: seeds that a plan has at most.
        metrics: of which differences are stated; they share the level.
    """

    seeds: int
    most: int
    metrics: int = 1

    def level(self, look: int, plans: int) -> float:
        """The two-sided level of one comparison of two of *plans* plans, at the look after *look* seeds.

        Looking again and again finds differences that are not there, and so does comparing many plans. The level of
        all statements together is spent evenly over the seeds (Lan and DeMets, 1983, with spending linear in the
        information), and each look's share is split over all pairs and metrics (Bonferroni; Dunn, 1961). Tukey's
        studentized range would gain 1 to 3 %, but counts on equal spreads and on plans whose seeds are not the same.
        """
        spent = look if look == max(self.seeds, 2) else 1
        return LEVEL * spent / max(self.most, 2) / max(plans * (plans - 1) / 2, 1) / self.metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a race is.

    Attributes:
        looks: of each plan, how many seeds it had when it was last looked at: by these it is judged.
        better: differences that were found at any look.
        best: the plan of the best quality among those that run to the end and may be recommended.
        needed: (repeat, plan) to train before the next look, in order; empty where the race is over.
        ahead: what may be needed after that: for hands that would be idle.
    """

    looks: tuple[int, ...]
    better: frozenset[Pair] = frozenset()
    best: int | None = None
    needed: tuple[Pair, ...] = ()
    ahead: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What can be told of plans by their first seeds.

    Attributes:
        rows: per plan, one loss per seed.
        level: of one comparison, two-sided.
    """

    rows: Sequence[Sequence[float]]
    level: float
    noise: SeedNoise = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", SeedNoise.of(self.rows))

    def better(self, alive: Sequence[int]) -> frozenset[Pair]:
        """Which of the plans *alive* are better than which, beyond the noise."""
        if self.noise.freedom == 0:
            return frozenset()
        with np.errstate(invalid="ignore"):
            found = -gaps(self.rows) > threshold(self.noise.pair_freedoms(), self.level) * self.noise.errors()
        return frozenset((a, b) for a in alive for b in alive if found[a, b])

    def chances(self, last_level: float, most: int) -> Numbers:
        """How probably each plan will be found better than each other at the last look, shape (plans, plans).

        The predictive power (Spiegelhalter, Freedman and Blackburn, 1986): over what the rest of the seeds may bring
        if the plans are as different as they look now, within the error of that.
        """
        freedoms = self.noise.pair_freedoms()
        needed = threshold(freedoms, last_level) * self.noise.errors(np.full(len(self.rows), float(most)))
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = 1 / self.noise.counts - 1 / most
            drift = self.noise.sds**2 * np.maximum(rest, 0)
            errors = np.sqrt(drift[:, None] + drift[None, :])
            chances: Numbers = special.stdtr(freedoms, -(needed + gaps(self.rows)) / errors)
        return np.nan_to_num(chances)


def stand(racers: Sequence[Racer], rules: Rules) -> Standing:
    """Play the race again from its first look, as far as there are trainings.

    It is a group-sequential test of all pairs: after each seed, differences are sought among the plans that still run,
    on equal numbers of seeds; those once found stand. A plan goes on while a comparison that matters is open: whether
    it is better than the faster plans that it would have to beat, or whether a slower one of the front is better than
    it. A comparison is closed when the difference is found, or when it is futile to wait for it (stochastic
    curtailment, which finds no difference more; Lan, Simon and Halperin, 1982). So a plan that is clearly worse than a
    faster one leaves (as in F-race; Birattari et al., 2002), and is compared by the seeds that it had. As long as any
    plan runs, so do the best and the one to be recommended, the fastest that is not found worse: one that left comes
    back when it turns out to be either. More trainings than a look needs change nothing.
    """
    looks = [rules.seeds] * len(racers)
    alive = list(range(len(racers)))
    better: frozenset[Pair] = frozenset()
    best = None
    for look in range(rules.seeds, rules.most + 1):
        missing = _missing(racers, alive, range(1, look + 1))
        if missing:
            ahead = _missing(racers, alive, range(look + 1, rules.most + 1))
            return Standing(looks=tuple(looks), better=better, best=best, needed=missing, ahead=ahead)
        for plan in alive:
            looks[plan] = look
        seen = Look(_rows([racer.losses for racer in racers], looks), rules.level(look, len(racers)))
        better |= seen.better(alive)
        able = [plan for plan in alive if racers[plan].able and seen.rows[plan]]
        means_P = means(seen.rows)
        best = min(able, key=lambda plan: (means_P[plan], racers[plan].cost), default=best)
        alive = _contenders(racers, able, seen, better, rules) if look < rules.most else []
        if not alive:
            break
    return Standing(looks=tuple(looks), better=better, best=best)


def differences(losses: Sequence[Mapping[int, float | None]], looks: Sequence[int], rules: Rules) -> frozenset[Pair]:
    """The differences found at any look of a race that is over, in any metric.

    Args:
        losses: per plan, as :attr:`Racer.losses`.
        looks: as :attr:`Standing.looks`.
        rules: of the race.
    """
    better: frozenset[Pair] = frozenset()
    for look in range(rules.seeds, max(looks, default=0) + 1):
        alive = [plan for plan, last in enumerate(looks) if last >= look]
        better |= Look(_rows(losses, [min(look, last) for last in looks]), rules.level(look, len(looks))).better(alive)
    return better


def _rows(losses: Sequence[Mapping[int, float | None]], looks: Sequence[int]) -> list[tuple[float, ...]]:
    """Per plan, the losses of its first seeds, without those trainings that did not come to their end."""
    return [
        tuple(loss for repeat, loss in sorted(one.items()) if repeat <= look and loss is not None)
        for one, look in zip(losses, looks, strict=True)
    ]


def _missing(racers: Sequence[Racer], plans: Sequence[int], repeats: range) -> tuple[Pair, ...]:
    return tuple((repeat, plan) for repeat in repeats for plan in plans if repeat not in racers[plan].losses)


def _contenders(
    racers: Sequence[Racer], able: Sequence[int], seen: Look, better: frozenset[Pair], rules: Rules
) -> list[int]:
    """The plans of open comparisons, with the leaders; none where all are closed."""
    if seen.noise.freedom == 0:
        return list(able) if len(able) > 1 else []
    means_P = means(seen.rows)
    chances = seen.chances(rules.level(rules.most, len(racers)), rules.most)
    in_play: set[int] = set()
    for slower, rivals in _rivals(racers, able, means_P).items():
        hoped = [one for one in rivals if (slower, one) not in better and chances[slower, one] >= FUTILE]
        in_play |= {slower, *hoped} if hoped else set()
    return sorted(in_play | _leaders(racers, seen, better)) if in_play else []


def _leaders(racers: Sequence[Racer], seen: Look, better: frozenset[Pair]) -> set[int]:
    """The best plan by its mean, and the fastest that is not found worse, whether they still run or not."""
    means_P = means(seen.rows)
    able = [plan for plan, racer in enumerate(racers) if racer.able and seen.rows[plan]]
    best = min(able, key=lambda plan: (means_P[plan], racers[plan].cost))
    tied = [plan for plan in able if (best, plan) not in better]
    return {best, min(tied, key=lambda plan: (racers[plan].cost, means_P[plan]))}


def _rivals(racers: Sequence[Racer], able: Sequence[int], means_P: Numbers) -> dict[int, list[int]]:
    """Each plan → the faster ones that it must beat: all of them where it is on the front, else the best of them."""
    rivals: dict[int, list[int]] = {}
    faster: list[int] = []
    lowest = inf
    for plan in sorted(able, key=lambda plan: (racers[plan].cost, means_P[plan])):
        on_front = means_P[plan] < lowest
        rivals[plan] = list(faster) if on_front else [min(faster, key=lambda one: means_P[one])]
        lowest = min(lowest, means_P[plan])
        faster.append(plan)
    return rivals
