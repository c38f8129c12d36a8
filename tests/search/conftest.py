"""A synthetic problem whose every answer is known, and a loop that runs a broker over it without Ray."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from headtune.heads import AttentionSite, HeadCount, HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective
from headtune.search import Ledger
from headtune.trial import Broker, Measurement, Outcome, Signal, TrialRecord, TrialRequest, TrialResult

OBJECTIVES = (
    Objective(metric="val_accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)
SITES = tuple(
    AttentionSite(path=f"layer.{n}", role="self", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)
    for n in range(4)
)
EPOCHS = 4


def heads_of(plan: HeadPlan) -> tuple[int, ...]:
    return tuple(count.num_heads for _, count in plan)


def plan_of(*heads: int) -> HeadPlan:
    return HeadPlan.of({site.path: HeadCount(n, n, 8) for site, n in zip(SITES, heads, strict=True)})


def space_of(heads: list[int] | None = None) -> SearchSpace:
    return SearchSpace.of(SITES, SpaceOptions(hold="head_dim", heads=heads or [1, 2, 4, 8]))


def latency(plan: HeadPlan) -> float:
    return 1.0 + 0.25 * sum(heads_of(plan))


def accuracy(plan: HeadPlan, params: Mapping[str, object] | None = None) -> float:
    """Rises with heads, most in the deep layers; a learning rate away from 0.01 costs."""
    gain = sum((depth + 1) * (1 - 0.5**heads) for depth, heads in enumerate(heads_of(plan))) / 10
    lr = (params or {}).get("lr", 0.01)
    return gain - abs(float(lr) - 0.01) if isinstance(lr, float) else gain


@dataclass(kw_only=True)
class Problem:
    """What a worker would do, as functions of plan and params."""

    limit: float | None = None
    epochs: int = EPOCHS
    fail: Callable[[TrialRequest], TrialResult | None] = lambda request: None
    curve: Callable[[TrialRequest, int], float] = lambda request, step: (
        accuracy(request.plan, request.params) * step / EPOCHS
    )
    started: list[TrialRequest] = field(default_factory=list)

    def measure(self, request: TrialRequest) -> Measurement:
        time_ms = latency(request.plan)
        violations = {} if self.limit is None else {"latency_ms": time_ms - self.limit}
        return Measurement(metrics={"latency_ms": time_ms}, latency=None, violations=violations)

    def steps(self, broker: Broker, request: TrialRequest) -> Iterator[None]:
        """One trial, one step at a time, ended through the broker."""
        self.started.append(request)
        measurement = self.measure(request)
        if request.kind != "verify":
            broker.measured(request.number, measurement)
        yield
        result = self.fail(request)
        if result is None and request.kind == "search" and not measurement.feasible:
            result = TrialResult(outcome=Outcome.INFEASIBLE, message="too slow")
        if result is not None:
            broker.finish(request.number, result)
            return
        for step in range(1, self.epochs + 1):
            value = self.curve(request, step)
            if broker.report(request.number, step, {"val_accuracy": value}):
                broker.finish(request.number, TrialResult(outcome=Outcome.STOPPED, message=""))
                return
            yield
        final = {"val_accuracy": self.curve(request, self.epochs)}
        whole = TrialResult(outcome=Outcome.OK, message="", metrics=final, seconds={"train": 0.5})
        broker.finish(request.number, whole)


def drive(broker: Broker, problem: Problem, *, slots: int = 1, most: int = 10_000) -> int:
    """Run trials, a step of each in turn, until the broker is done; how many were started."""
    flights: list[Iterator[None]] = []
    begun = 0
    for _ in range(1_000_000):
        while len(flights) < slots and begun < most:
            proposal = broker.propose()
            if proposal is Signal.WAIT:
                assert flights, "a broker that waits for nothing hangs"
                break
            if proposal is Signal.DONE:
                if not flights:
                    return begun
                break
            assert isinstance(proposal, TrialRequest)
            begun += 1
            flights.append(problem.steps(broker, proposal))
        if not flights:
            return begun
        broker.beat()
        flights = [flight for flight in flights if next(flight, "ended") is None]
    raise AssertionError("the broker never ends")


class Listener:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.plans: list[tuple[int, int]] = []
        self.records: list[TrialRecord] = []

    def phase(self, name: str, detail: str = "") -> None: ...

    def note(self, message: str) -> None:
        self.notes.append(message)

    def plan(self, trials: int, finished: int) -> None:
        self.plans.append((trials, finished))

    def earlier(self, records: Sequence[TrialRecord]) -> None: ...

    def trial(self, record: TrialRecord) -> None:
        self.records.append(record)


def open_ledger(url: str, name: str = "study", **changes: object) -> Ledger:
    fingerprint = {"space": {"hold": "head_dim", "heads": [1, 2, 4, 8]}, "seed": 0} | changes
    return Ledger.open(url, name, objectives=OBJECTIVES, fingerprint=fingerprint, manifest={"name": name})


@pytest.fixture(scope="session")
def kit() -> ModuleType:
    """This module: the problem and the loop."""
    return sys.modules[__name__]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with open_ledger(url) as opened:
        yield opened
