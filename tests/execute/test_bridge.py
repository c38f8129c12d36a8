"""The thin side of Ray Tune, against a broker that writes down what it is told."""

import pickle
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.search import Searcher

from headtune.execute.bridge import Bridge, BrokerSearcher, BrokerStopper, LossReporter, WaitReporter
from headtune.execute.cluster import Waiting
from headtune.execute.demand import Demand
from headtune.execute.interrupts import Interrupt
from headtune.execute.trainable import MESSAGE, Report
from headtune.heads import HeadCount, HeadPlan
from headtune.trial import Measurement, Outcome, Signal, Silent, TrialRequest, TrialResult

REQUEST = TrialRequest(
    number=5,
    kind="search",
    label="",
    plan=HeadPlan.of({"a": HeadCount(1, 1, 1)}),
    params={},
    repeat=0,
    seed=0,
    epochs=1,
    key="k",
)
OK = TrialResult(outcome=Outcome.OK, message="fine")


class Diary:
    """A broker with answers given beforehand."""

    def __init__(self, *answers: TrialRequest | Signal, stop: bool = False) -> None:
        self.secret = "postgresql://ann:password@host/db"
        self.told: list[tuple[object, ...]] = []
        self._answers = list(answers)
        self._stop = stop

    def propose(self) -> TrialRequest | Signal:
        return self._answers.pop(0)

    def measured(self, number: int, measurement: Measurement) -> None:
        self.told.append(("measured", number))

    def report(self, number: int, step: int, metrics: Mapping[str, float]) -> bool:
        self.told.append(("report", number, step))
        return self._stop

    def finish(self, number: int, result: TrialResult) -> None:
        self.told.append(("finish", number, result.outcome))

    def lost(self, number: int, reason: str) -> None:
        self.told.append(("lost", number, reason))

    def beat(self) -> None:
        pass


def test_proposals_become_configs_waits_and_an_end() -> None:
    searcher = BrokerSearcher(Bridge(Diary(REQUEST, Signal.WAIT, Signal.DONE)))
    assert searcher.suggest("t1") == {"request": REQUEST}
    assert searcher.suggest("t2") is None
    assert searcher.suggest("t3") == Searcher.FINISHED


def test_messages_reach_the_broker_under_the_trial_number_and_the_last_one_ends_it() -> None:
    broker = Diary(REQUEST)
    bridge = Bridge(broker)
    bridge.propose("t1")
    stopper = BrokerStopper(bridge, Interrupt())
    assert not stopper("t1", {MESSAGE: Measurement(metrics={}, latency=None, violations={})})
    assert not stopper("t1", {MESSAGE: Report(1, {"q": 1.0})})
    assert stopper("t1", {MESSAGE: OK})
    assert stopper("t1", {MESSAGE: OK})  # what comes after the end is not told again
    assert broker.told == [("measured", 5), ("report", 5, 1), ("finish", 5, Outcome.OK)]


def test_a_stop_ends_the_trial_as_stopped() -> None:
    broker = Diary(REQUEST, stop=True)
    bridge = Bridge(broker)
    bridge.propose("t1")
    assert bridge.receive("t1", Report(1, {}))
    assert broker.told[-1] == ("finish", 5, Outcome.STOPPED)


def test_a_lost_worker_is_told_once() -> None:
    broker = Diary(REQUEST)
    bridge = Bridge(broker)
    bridge.propose("t1")
    bridge.lose("t1", "killed")
    bridge.lose("t1", "killed")
    assert broker.told == [("lost", 5, "killed")]


class OnTerminal(Silent):
    """An observer that shows things somewhere, and so cannot be pickled."""

    def __reduce__(self) -> str:
        raise pickle.PicklingError("a terminal")


def test_nothing_of_the_broker_or_the_observer_is_pickled() -> None:
    bridge = Bridge(Diary(REQUEST))
    waits = WaitReporter(Waiting(OnTerminal(), Demand()))
    for part in (bridge, BrokerSearcher(bridge), BrokerStopper(bridge, Interrupt()), LossReporter(bridge), waits):
        assert b"password" not in pickle.dumps(part)


def test_an_interrupt_stops_everything() -> None:
    interrupt = Interrupt()
    stopper = BrokerStopper(Bridge(Diary()), interrupt)
    assert not stopper.stop_all()
    interrupt.asked = True
    assert stopper.stop_all()


@pytest.mark.parametrize(
    ("states", "waits"),
    [
        ([], False),
        (["PENDING"], True),
        (["TERMINATED", "ERROR"], False),
        (["TERMINATED", "PENDING"], True),
        (["RUNNING", "PENDING"], False),
        (["RUNNING"], False),
    ],
)
def test_a_study_waits_when_a_trial_wants_a_worker_and_none_has_one(states: list[str], waits: bool) -> None:
    seen = []

    class Looks(Waiting):
        def look(self, *, waits: bool) -> None:
            seen.append(waits)

    trials: Any = [SimpleNamespace(status=state) for state in states]
    WaitReporter(Looks(Silent(), Demand())).on_step_end(0, trials)
    assert seen == [waits]
