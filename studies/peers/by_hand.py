"""What a person would write with Optuna: every trial trained in full, the front of what was observed."""

from collections.abc import Callable

import optuna
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from play import Played, Search
from world import World

Sampler = Callable[[int], BaseSampler]


def by_hand(sampler: Sampler, *, ordinal: bool = False) -> Search:
    """A search by ask and tell.

    Args:
        sampler: from a seed; the default one is Optuna's own for several objectives.
        ordinal: whether a count is suggested as the index into the counts, not as a category.
    """

    def search(world: World, trials: int, concurrent: int, seed: int) -> Played:
        table, played = world.table, Played(world)
        study = optuna.create_study(directions=[goal.direction for goal in table.objectives], sampler=sampler(seed))
        observed: dict[str, list[float]] = {}
        for start in range(0, trials, concurrent):
            asked = [study.ask() for _ in range(min(concurrent, trials - start))]
            plans = [_suggested(trial, world, ordinal=ordinal) for trial in asked]
            for trial, plan in zip(asked, plans, strict=True):
                # The same plan again would be trained on the same seed, as a person's script does.
                values = [table.finals[plan, world.drawn[plan][0]], table.latency[plan]]
                played.epochs += table.recording.epochs
                if world.budget is not None:
                    trial.set_constraint("latency", table.latency[plan] - world.budget)
                study.tell(trial, values)
                if world.feasible(plan):
                    observed[plan] = values
                    played.claim(world.front(observed))
            if played.over:
                break
        return played

    return search


def _suggested(trial: optuna.Trial, world: World, *, ordinal: bool) -> str:
    heads, sites = world.table.recording.heads, world.table.sites
    if ordinal:
        return "-".join(str(heads[trial.suggest_int(f"heads_{site}", 0, len(heads) - 1)]) for site in range(sites))
    return "-".join(str(trial.suggest_categorical(f"heads_{site}", heads)) for site in range(sites))


BY_HAND: dict[str, Search] = {
    "random": by_hand(lambda seed: RandomSampler(seed=seed)),
    "Optuna's default": by_hand(lambda seed: TPESampler(seed=seed)),
    "multivariate TPE": by_hand(
        lambda seed: TPESampler(seed=seed, multivariate=True, constant_liar=True), ordinal=True
    ),
    "NSGA-II": by_hand(lambda seed: NSGAIISampler(seed=seed)),
    "GPSampler": by_hand(lambda seed: GPSampler(seed=seed), ordinal=True),
}
"""Optuna's samplers, by what they are called in the tables."""
