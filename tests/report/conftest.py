"""Small studies with known truth: quality, latency and parameters follow closed forms, plus a fixed noise."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest

from headtune.heads import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold
from headtune.pareto import Objective, non_dominated, reference_point
from headtune.report import write_report
from headtune.search import Influence
from headtune.study.record import Finalist, LatencyRange, StudyRecord, Verdict
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.outcome import Outcome
from headtune.trial.params import ParamValue
from headtune.trial.record import TrialRecord

WIDTH = 64
COUNTS = (1, 2, 4, 8, 16, 32)
REFERENCE_MS = 2.4
PROTOCOL = LatencyProtocol(device="cpu", threads=1, batch_size=32, seq_len=64)
VERSIONS = {"headtune": "0.1.0", "torch": "2.13.0", "python": "3.11.9", "platform": "Linux x86_64"}
BEGAN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)

ACCURACY = Objective(metric="val_accuracy", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
PARAMETERS = Objective(metric="parameters", direction="minimize")

MakeRecord = Callable[..., StudyRecord]
"""Builds a study; the keywords are those of :class:`World` and ``changes`` to the finished record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A planted truth and the study of it."""

    sites: int = 3
    trials: int = 30
    objectives: tuple[Objective, ...] = (ACCURACY, LATENCY)
    present_heads: int = 8
    seeds: int = 3
    limit_ms: float | None = 3.0
    seed: int = 0
    path: str = "blocks.{}.attn"
    hold: Hold = "width"
    group: int = 1
    params: Mapping[str, ParamValue] = field(default_factory=dict)

    @property
    def timed(self) -> bool:
        return LATENCY in self.objectives or self.limit_ms is not None

    def uniform(self, heads: int) -> HeadPlan:
        return self.plan([heads] * self.sites)

    def plan(self, heads: Sequence[int]) -> HeadPlan:
        return HeadPlan.of({self.path.format(i): self.count(h) for i, h in enumerate(heads)})

    def count(self, heads: int) -> HeadCount:
        return HeadCount(heads, max(1, heads // self.group), WIDTH // heads if self.hold == "width" else 8)

    def noise(self, *key: object) -> float:
        return random.Random(repr((self.seed, *key))).gauss(0, 1)

    def accuracy(self, plan: HeadPlan, repeat: int) -> float:
        loss = fmean(1 / count.num_heads for _, count in plan)
        return 0.965 - 0.075 * loss + (0.003 + 0.012 * loss) * self.noise(plan.label, repeat)

    def latency_ratio(self, plan: HeadPlan) -> float:
        cost = [1.7 + 0.03 * count.num_heads for _, count in plan]
        return fmean(cost) / (1.7 + 0.03 * self.present_heads)

    def profile(self, plan: HeadPlan, turn: int = 0) -> LatencyProfile:
        true = self.latency_ratio(plan)
        ratio = true * (1 + 0.004 * self.noise("latency", plan.label, turn))
        here = REFERENCE_MS * 1.03
        return LatencyProfile(
            protocol=PROTOCOL,
            median_ms=ratio * here,
            p90_ms=ratio * here * 1.12,
            interval_ms=(ratio * here * 0.985, ratio * here * 1.015),
            ratio=ratio,
            ratio_interval=(ratio * 0.988, ratio * 1.012),
            reference_median_ms=here,
            samples=48,
            settled=True,
            contended=False,
            device_name="Example CPU @ 2.10GHz",
            versions={"torch": "2.13.0", "python": "3.11.9"},
        )

    def measured(self, plan: HeadPlan, turn: int = 0) -> dict[str, float]:
        known: dict[str, float] = {"parameters": 152_330 + 130 * sum(count.num_heads for _, count in plan)}
        if self.timed:
            known["latency_ms"] = self.profile(plan, turn).ratio * REFERENCE_MS
        return known

    def trial(self, number: int, plan: HeadPlan, label: str = "", stop: bool = False, repeat: int = 0) -> TrialRecord:
        measured, profile = self.measured(plan), self.profile(plan) if self.timed else None
        over = (
            {}
            if self.limit_ms is None or profile is None
            else {"latency_ms": profile.ratio_interval[1] * REFERENCE_MS - self.limit_ms}
        )
        final = self.accuracy(plan, repeat)
        epochs = 5 if stop else 12
        curve = tuple(
            (step, final - 0.5 * 0.62**step + 0.002 * self.noise("curve", number, step)) for step in range(1, epochs)
        )
        untrained = not label and any(amount > 0 for amount in over.values())
        outcome = Outcome.INFEASIBLE if untrained else Outcome.STOPPED if stop else Outcome.OK
        message = outcome.sentence
        if untrained:
            message = f"breaks latency_ms by {over['latency_ms']:.4g}; known before training, so no epoch was paid"
        began = BEGAN + timedelta(seconds=20 * number)
        return TrialRecord(
            number=number,
            kind="baseline" if label else "search",
            label=label,
            plan=plan,
            params=self.params,
            repeat=repeat,
            seed=1234 + 1000 * repeat + self.seed,
            outcome=outcome,
            message=message,
            metrics=measured | ({"val_accuracy": final} if outcome is Outcome.OK else {}),
            violations=over,
            curve=() if untrained else (*curve, (epochs, final)) if outcome is Outcome.OK else curve,
            latency=profile,
            seconds={"build": 0.02, "measure": 1.4} | ({} if untrained else {"train": 7.5, "evaluate": 0.1}),
            started=began,
            ended=began + timedelta(seconds=9),
        )

    @property
    def baselines(self) -> dict[str, HeadPlan]:
        half = self.sites // 2
        return {
            "present": self.uniform(self.present_heads),
            "rule": self.uniform(1),
            "rule-mixed": self.plan([1] * half + [2] * (self.sites - half)),
            "smallest": self.uniform(1),
            "largest": self.uniform(32),
        }

    def searched(self) -> list[TrialRecord]:
        named = dict[HeadPlan, str]()
        for label, plan in self.baselines.items():
            named.setdefault(plan, label)
        found = [self.trial(number, plan, label) for number, (plan, label) in enumerate(named.items())]
        chance, seen = random.Random(self.seed), set(named)
        space = list(product(COUNTS, repeat=self.sites)) if self.sites <= 4 else None
        while len(found) < self.trials and len(seen) < len(COUNTS) ** self.sites:
            heads = chance.choice(space) if space else [chance.choice(COUNTS) for _ in range(self.sites)]
            plan = self.plan(heads)
            if plan not in seen:
                seen.add(plan)
                found.append(self.trial(len(found), plan, stop=chance.random() < 0.25))
        return found[: max(self.trials, 0)]

    def finalist(self, trial: TrialRecord) -> Finalist:
        labels = tuple(name for name, plan in self.baselines.items() if plan == trial.plan)
        values = tuple(self.accuracy(trial.plan, repeat) for repeat in range(1, self.seeds + 1))
        profile = self.profile(trial.plan, turn=1) if self.timed else None
        return Finalist(
            plan=trial.plan,
            params=trial.params,
            labels=labels,
            measured=self.measured(trial.plan, turn=1),
            latency=profile,
            quality={"val_accuracy": values},
            test={"test_accuracy": tuple(value - 0.006 for value in values)},
            tied_with_best=fmean(values) > 0.955,
            feasible=trial.feasible,
            front_probability=0.25 if self.seeds > 1 else None,
        )

    def verification(self, finalists: Sequence[Finalist], first: int) -> tuple[TrialRecord, ...]:
        return tuple(
            replace(
                self.trial(first + index * self.seeds + repeat, finalist.plan, label="verify", repeat=repeat + 1),
                kind="verify",
                label="",
                metrics={"val_accuracy": finalist.quality["val_accuracy"][repeat]},
                test_metrics={name: values[repeat] for name, values in finalist.test.items()},
                violations={},
                latency=None,
            )
            for index, finalist in enumerate(finalists)
            for repeat in range(self.seeds)
        )

    def better(self, finalists: Sequence[Finalist]) -> dict[str, tuple[tuple[int, int], ...]]:
        """Differences of more than 0.02, the better one first."""
        means = [fmean(one.quality["val_accuracy"]) for one in finalists]
        every = range(len(means))
        found = tuple((a, b) for a in every for b in every if means[a] > means[b] + 0.02)
        return {"val_accuracy": found, "test_accuracy": tuple((b, a) for a, b in found)}

    def study(self, *, verified: bool = True) -> StudyRecord:
        trials = self.searched()
        offered = [trial for trial in trials if trial.on_offer]
        values = [tuple(trial.metrics[goal.metric] for goal in self.objectives) for trial in offered]
        front = [offered[index] for index in non_dominated(values, self.objectives)]
        judged = [
            *front[:5],
            *(trial for trial in trials if trial.label in ("present", "rule") and trial not in front[:5]),
        ]
        finalists = tuple(self.finalist(trial) for trial in judged) if verified else ()
        ties = [index for index, one in enumerate(finalists) if one.feasible and one.tied_with_best]
        best = min(ties, key=lambda index: self.latency_ratio(finalists[index].plan), default=None)
        measured = [trial for trial in trials if trial.kind == "baseline" and "val_accuracy" in trial.metrics]
        named = self.baselines
        return StudyRecord(
            name="digits-vit",
            task="../examples/digits_vit.py:task",
            seed=self.seed,
            hold=self.hold,
            weights="fresh",
            sites=tuple(self.site(path) for path in named["present"].paths),
            objectives=self.objectives,
            constraints={} if self.limit_ms is None else {"latency_ms": "latency_ms ≤ 1.25 × present"},
            limits={} if self.limit_ms is None else {"latency_ms": self.limit_ms},
            space_size=len(COUNTS) ** self.sites,
            sampler="gp",
            trials_asked=self.trials,
            epochs=12,
            latency=PROTOCOL if self.timed else None,
            latency_range=LatencyRange(
                plans={name: named[name] for name in ("smallest", "rule", "present", "largest")},
                profiles={name: self.profile(named[name], 2) for name in ("smallest", "rule", "present", "largest")},
                reference_ms=REFERENCE_MS,
            )
            if self.timed
            else None,
            baselines=named,
            trials=tuple(trials),
            verify_trials=self.verification(finalists, len(trials)),
            finalists=finalists,
            verdict=Verdict(
                recommended=best,
                rule="the fastest plan whose val_accuracy is not significantly worse than that of the best",
                findings=("Against the rule of thumb, the recommended plan gains 0.07 of val_accuracy: significant.",),
                better=self.better(finalists),
            )
            if finalists
            else None,
            reference_point=reference_point(
                [tuple(trial.metrics[goal.metric] for goal in self.objectives) for trial in measured], self.objectives
            )
            if measured
            else None,
            versions=VERSIONS,
            influences=tuple(map(self.influence, self.objectives)) if finalists else (),
        )

    def influence(self, goal: Objective) -> Influence:
        """The first site matters most for the quality, the last for all else."""
        paths = self.baselines["present"].paths
        weights = {path: 1 / number**2 for number, path in enumerate(paths, start=1)}
        if goal.measured:
            weights = dict(zip(paths, reversed(weights.values()), strict=True))
        shares = {path: weight / sum(weights.values()) for path, weight in weights.items()}
        return Influence(metric=goal.metric, trials=20, shares=shares, clear=(max(shares, key=shares.__getitem__),))

    def site(self, path: str) -> AttentionSite:
        heads, kv_heads, head_dim = self.count(self.present_heads)
        return AttentionSite(
            path=path, role="self", embed_dim=WIDTH, num_heads=heads, num_kv_heads=kv_heads, head_dim=head_dim
        )


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    """A finished study; keywords change its world, ``verified=False`` leaves it before verification."""

    def make(*, verified: bool = True, **world: object) -> StudyRecord:
        return World(**world).study(verified=verified)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def record(make_record: MakeRecord) -> StudyRecord:
    """A finished study of thirty trials, verified with three seeds."""
    return make_record()


def failed(trial: TrialRecord, outcome: Outcome, message: str) -> TrialRecord:
    """The trial as if it had failed: measured, but without a result."""
    metrics = {name: value for name, value in trial.metrics.items() if name != "val_accuracy"}
    return replace(trial, outcome=outcome, message=message, metrics=metrics, curve=trial.curve[:2])


def all_failed() -> StudyRecord:
    record = World(trials=3).study(verified=False)
    said = (
        (Outcome.CRASHED, "raised an error or lost its process: ValueError: no data at /data (train.py, line 12)"),
        (Outcome.DIVERGED, "reported a value that is not finite: val_accuracy was nan at report 2"),
        (Outcome.OUT_OF_MEMORY, "ran out of memory"),
    )
    trials = tuple(failed(trial, *how) for trial, how in zip(record.trials, said, strict=True))
    return replace(record, trials=trials, reference_point=None)


def running() -> StudyRecord:
    record = World(trials=30).study(verified=False)
    last = replace(record.trials[2], outcome=None, message="", metrics={}, curve=record.trials[2].curve[:3], ended=None)
    return replace(record, trials=(*record.trials[:2], last), reference_point=None, verdict=None)


def nothing_feasible() -> StudyRecord:
    record = World(limit_ms=1.0, trials=8).study()
    verdict = Verdict(recommended=None, rule="no finalist meets every constraint")
    return replace(record, verdict=verdict)


PARTIAL: dict[str, Callable[[], StudyRecord]] = {
    "no finalists": lambda: World().study(verified=False),
    "no latency": lambda: World(objectives=(ACCURACY, PARAMETERS), limit_ms=None).study(),
    "one objective": lambda: World(objectives=(ACCURACY,), limit_ms=None).study(),
    "no quality": lambda: World(objectives=(LATENCY, PARAMETERS)).study(verified=False),
    "three objectives": lambda: World(objectives=(ACCURACY, LATENCY, PARAMETERS)).study(),
    "nothing feasible": nothing_feasible,
    "all failed": all_failed,
    "running": running,
    "96 sites": lambda: World(sites=96, path="encoder.layers.{}.self_attention", trials=12).study(),
    "grouped heads and params": lambda: World(hold="head_dim", group=4, params={"lr": 0.001, "norm": "pre"}).study(),
    "one trial": lambda: World(trials=1).study(verified=False),
    "no trial": lambda: replace(World(trials=1).study(verified=False), trials=(), reference_point=None),
}
"""Studies that lack something, by what they lack."""


@pytest.fixture(scope="session", params=PARTIAL)
def partial(request: pytest.FixtureRequest) -> StudyRecord:
    """A study that lacks something."""
    return PARTIAL[request.param]()


@pytest.fixture(scope="session")
def report(record: StudyRecord, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the finished study's report; read only."""
    return written(record, tmp_path_factory)


@pytest.fixture(scope="session")
def partial_report(partial: StudyRecord, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a partial study's report; read only."""
    return written(partial, tmp_path_factory)


def written(record: StudyRecord, folders: pytest.TempPathFactory) -> Path:
    folder = folders.mktemp("report")
    write_report(record, folder)
    return folder
