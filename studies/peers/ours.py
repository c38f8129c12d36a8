"""headtune's own search on a table: the real broker and ledger, with trainings that are read off the table."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from play import Played, Search
from shared_weights import TRAININGS, first_plans
from world import LATENCY, World

from headtune import HeadPlan, SearchSpace
from headtune.heads.baseline import baselines
from headtune.search import Ledger, SearchBroker, SearchRules
from headtune.search.surrogate.gaussian_process import Array, GaussianProcess
from headtune.study.finalists import front_of
from headtune.trial import Measurement, Outcome, Signal, TrialRequest, TrialResult

Start = Callable[[World, SearchSpace], Mapping[str, HeadPlan]]
"""What is trained first, by name."""


def named(world: World, space: SearchSpace) -> Mapping[str, HeadPlan]:
    """The present plan and the rule of thumb."""
    return {name: plan for name, plan in baselines(space.sites, space.options) if plan in space}


def nothing(world: World, space: SearchSpace) -> Mapping[str, HeadPlan]:
    """Nothing in particular."""
    return {}


def shared(world: World, space: SearchSpace) -> Mapping[str, HeadPlan]:
    """What a supernet would train, and what everybody has."""
    return {**named(world, space), **{plan.label: plan for plan in first_plans(world)}}


DEFAULTS = SearchRules(trials=1, epochs=1)


@dataclass(frozen=True)
class Setting:
    """How headtune is set.

    Attributes:
        rules: of the search; trials, concurrent and seed are the comparison's.
        start: what it trains first.
        believes: whether its claims go by the qualities that it believes in, not by those that one seed gave.
        trainings: what its start costs before anything is trained.
        without: what of headtune is replaced, by its full name, and what by; nothing if ``None``.
    """

    rules: SearchRules = DEFAULTS
    start: Start = named
    believes: bool = True
    trainings: int = 0
    without: tuple[str, object] | None = None

    def __call__(self, world: World, trials: int, concurrent: int, seed: int) -> Played:
        """Play it."""
        with patch(*self.without) if self.without else nullcontext():
            return self._play(world, trials, concurrent, seed)

    def _play(self, world: World, trials: int, concurrent: int, seed: int) -> Played:
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
                broker = SearchBroker(ledger, space, rules, baselines=self.start(world, space))
                played = Played(world, epochs=self.trainings * recording.epochs)
                return _Theatre(self, played, broker, ledger).play(concurrent)


@dataclass
class _Theatre:
    """Trials in flight, an epoch of each in turn."""

    setting: Setting
    played: Played
    broker: SearchBroker
    ledger: Ledger

    def play(self, concurrent: int) -> Played:
        played = self.played
        flights: list[Iterator[int]] = []
        while True:
            while len(flights) < concurrent:
                asked = self.broker.propose()
                if isinstance(asked, Signal):
                    break
                flights.append(self._trial(asked))
            if not flights or played.over:
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
        world, plan = self.played.world, request.plan.label
        latency = world.table.latency[plan]
        broken = {} if world.budget is None else {LATENCY.metric: latency - world.budget}
        found = Measurement(metrics={LATENCY.metric: latency}, latency=None, violations=broken)
        self.broker.measured(request.number, found)
        if request.kind == "search" and not world.feasible(plan):
            self.broker.finish(request.number, TrialResult(outcome=Outcome.INFEASIBLE, message=""))
            return
        metric, key = world.table.recording.quality.metric, (plan, world.drawn[plan][request.repeat])
        for step, value in enumerate(world.table.curves[key], start=1):
            yield 1
            if self.broker.report(request.number, step, {metric: value}):
                self.broker.finish(request.number, TrialResult(outcome=Outcome.STOPPED, message=""))
                return
        final = {metric: world.table.finals[key]}
        self.broker.finish(request.number, TrialResult(outcome=Outcome.OK, message="", metrics=final))

    def _claimed(self) -> list[str]:
        """The front that finalists are taken from."""
        trials, goals = self.ledger.trials(), self.played.world.table.objectives
        believed = self.broker.believed if self.setting.believes else None
        return [trial.plan.label for trial in front_of(trials, goals, believed).items]


HEADTUNE: dict[str, Search] = {"headtune": Setting()}
"""headtune's search as it comes."""

_SURROGATE = "headtune.search.surrogate"


def _forgetting(process: GaussianProcess, points: Array) -> GaussianProcess:
    """In place of what expects the running trials' ends."""
    return process


STOPPING = Setting(without=("headtune.search.broker.SearchBroker._stops", True))
"""Trainings are given up where others were better at the same epoch, as other samplers' are."""

LEVERS: dict[str, dict[str, Search]] = {
    "one at a time": {
        "no uniform plans first": Setting(without=("headtune.search.surrogate.untried.UNIFORM", ())),
        "takes each site alone": Setting(without=("headtune.search.codec.Codec.dimensions", 0)),
        "claims what it saw": Setting(believes=False),
        "starts from nothing": Setting(start=nothing),
        "stops the hopeless": STOPPING,
        "starts from a supernet": Setting(start=shared, trainings=TRAININGS),
    },
    "eight at a time": {
        "forgets what runs": Setting(without=(f"{_SURROGATE}.gaussian_process.GaussianProcess.expecting", _forgetting)),
        "reads no unfinished curve": Setting(without=(f"{_SURROGATE}.outlook.Outlook._open", lambda outlook: {})),
        "stops the hopeless": STOPPING,
    },
}
"""headtune's search with one part changed, by scenario."""
