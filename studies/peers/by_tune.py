"""What a person would write with Ray Tune: its Optuna searcher for two objectives, and ASHA on the quality.

Tune's own searcher and scheduler decide; only its workers are left out, since a table needs none. As in Tune, a trial
that ASHA stops is told to Optuna with what it last reported, and so it may stand on the front that is claimed.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from play import Played
from ray import tune
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search.optuna import OptunaSearch
from world import World

Flight = Iterator[bool]
"""A trial under way, an epoch at each step; whether it goes on."""


def optuna_with_asha(world: World, trials: int, concurrent: int, seed: int) -> Played:
    """``OptunaSearch`` and ``ASHAScheduler`` as they come; plans that are too slow are left out afterwards."""
    theatre = _Theatre(world, seed)
    flights: list[Flight] = []
    started = 0
    while (flights or started < trials) and not theatre.played.over:
        while len(flights) < concurrent and started < trials:
            flights.append(theatre.trial(f"trial_{started}"))
            started += 1
        flights = [flight for flight in flights if next(flight)]
    return theatre.played


class _Theatre:
    def __init__(self, world: World, seed: int) -> None:
        self.world, self.played = world, Played(world)
        quality, latency = world.table.objectives
        heads, sites = list(world.table.recording.heads), range(world.table.sites)
        self.searcher = OptunaSearch(
            {f"heads_{site}": tune.choice(heads) for site in sites},
            metric=[quality.metric, latency.metric],
            mode=[{"maximize": "max", "minimize": "min"}[goal.direction] for goal in (quality, latency)],
            seed=seed,
        )
        mode = {"maximize": "max", "minimize": "min"}[quality.direction]
        self.scheduler: Any = ASHAScheduler(metric=quality.metric, mode=mode, max_t=world.table.recording.epochs)
        self.observed: dict[str, list[float]] = {}

    def trial(self, name: str) -> Flight:
        """Train a plan until ASHA stops it or its epochs are over."""
        table = self.world.table
        config = self.searcher.suggest(name)
        assert config is not None
        plan = "-".join(str(config[f"heads_{site}"]) for site in range(table.sites))
        trial = SimpleNamespace(trial_id=name)
        self.scheduler.on_trial_add(None, trial)
        quality, latency = table.objectives
        key, result = (plan, self.world.drawn[plan][0]), dict[str, Any]()
        for epoch, value in enumerate(table.curves[key], start=1):
            last = epoch == table.recording.epochs
            self.played.epochs += 1
            result = {quality.metric: table.finals[key] if last else value, latency.metric: table.latency[plan]}
            result["training_iteration"] = epoch
            if last or self.scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP:
                break
            self.searcher.on_trial_result(name, result)
            yield True
        self.scheduler.on_trial_complete(None, trial, result)
        self.searcher.on_trial_complete(name, result)
        if self.world.feasible(plan):
            self.observed[plan] = [result[quality.metric], result[latency.metric]]
            self.played.claim(self.world.front(self.observed))
        yield False
