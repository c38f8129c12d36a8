"""headtune's own search on a table: the real broker and ledger, with trainings that are read off the table."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from play import Played, Search
from world import LATENCY, World

from headtune.heads.baseline import baselines
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.study.finalists import front_of
from headtune.trial import Measurement, Outcome, Signal, TrialRequest, TrialResult


@dataclass(frozen=True)
class Setting:
    """How headtune is set.

    Attributes:
        rules: of the search; trials, concurrent and seed are the comparison's.
    """

    rules: SearchRules

    def __call__(self, world: World, trials: int, concurrent: int, seed: int) -> Played:
        """Play it."""
        recording = world.table.recording
        space = recording.space(recording.task())
        rules = replace(
            self.rules,
            limits=() if world.budget is None else (LATENCY.metric,),
            trials=trials,
            epochs=recording.epochs,
            concurrent=concurrent,
            seed=seed,
        )
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'study.db'}"
            goals = world.table.objectives
            with Ledger.open(url, "play", objectives=goals, fingerprint={}, manifest={}) as ledger:
                named = {name: plan for name, plan in baselines(space.sites, recording.options) if plan in space}
                broker = SearchBroker(ledger, space, rules, baselines=named)
                return _Theatre(world, broker, ledger).play(concurrent)


@dataclass
class _Theatre:
    """Trials in flight, an epoch of each in turn."""

    world: World
    broker: SearchBroker
    ledger: Ledger
    _reached: dict[int, int] = field(default_factory=dict)

    def play(self, concurrent: int) -> Played:
        played = Played(self.world)
        flights: list[Iterator[int]] = []
        while True:
            while len(flights) < concurrent:
                asked = self.broker.propose()
                if isinstance(asked, Signal):
                    break
                flights.append(self._trial(asked))
            if not flights:
                return played
            still = []
            for flight in flights:
                epochs = next(flight, None)
                if epochs is None:
                    played.claim(self._claimed())
                else:
                    played.epochs += epochs
                    still.append(flight)
            flights = still

    def _trial(self, request: TrialRequest) -> Iterator[int]:
        """One trial, yielding what each step of it cost."""
        world, plan = self.world, request.plan.label
        latency = world.table.latency[plan]
        broken = {} if world.budget is None else {LATENCY.metric: latency - world.budget}
        found = Measurement(metrics={LATENCY.metric: latency}, latency=None, violations=broken)
        aside = self.broker.measured(request.number, found)
        if request.kind == "search" and not world.feasible(plan):
            self.broker.finish(request.number, TrialResult(outcome=Outcome.INFEASIBLE, message=""))
            return
        if aside:
            self.broker.finish(request.number, TrialResult(outcome=Outcome.SET_ASIDE, message=""))
            return
        metric, key = world.table.recording.quality.metric, (plan, world.drawn[request.repeat])
        begun = self._reached.get(request.number, 0)
        for step, value in list(enumerate(world.table.curves[key], start=1))[begun:]:
            yield 1
            if self.broker.report(request.number, step, {metric: value}):
                self.broker.finish(request.number, TrialResult(outcome=Outcome.STOPPED, message=""))
                return
            if step == request.until:
                self._reached[request.number] = step
                self.broker.finish(request.number, TrialResult(outcome=Outcome.STOPPED, message=""))
                return
        final = {metric: world.table.finals[key]}
        self.broker.finish(request.number, TrialResult(outcome=Outcome.OK, message="", metrics=final))

    def _claimed(self) -> list[str]:
        """The front that finalists are taken from."""
        trials, goals = self.ledger.trials(), self.world.table.objectives
        return [trial.plan.label for trial in front_of(trials, goals, self.broker.believed).items]


HEADTUNE: dict[str, Search] = {"headtune": Setting(SearchRules(trials=1, epochs=1))}
"""headtune's search as it comes."""
