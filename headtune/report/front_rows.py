"""The plans worth showing: the finalists as they were verified, then the rest of the front as the search saw it."""

import math
import statistics
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from string import ascii_uppercase

from headtune.heads.plan import HeadPlan
from headtune.heads.site import Hold
from headtune.pareto.objective import MEASURED_METRICS, is_latency, is_measured
from headtune.report.search_front import front_trials
from headtune.study.record import Finalist, StudyRecord
from headtune.timing.lengths import profile_of
from headtune.timing.profile import LatencyProfile
from headtune.trial.outcome import Outcome
from headtune.trial.params import ParamValue
from headtune.trial.record import TrialRecord
from headtune.trial.setup import Weights

_MARKED = frozenset({"present", "rule"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value and how far it moves from seed to seed.

    Attributes:
        values: one per seed.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over seeds; ``None`` with one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def seeds(self) -> int:
        """How many seeds."""
        return len(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """One plan as the terminal and the page show it.

    Attributes:
        letter: what the plan is called in every table and picture.
        labels: baselines that are this plan (``present``, ``rule``, …).
        baseline: whether it is such a baseline itself, not the same counts with other params.
        trial: number of the search's trial; ``None`` where only the verification trained this plan with these params.
        on_front: whether no other plan on offer is at least as good in every objective and better in one, as searched.
        in_space: whether the search may choose it; a baseline outside of the space is only compared with.
        verified: whether it was judged again as a finalist: timed side by side with the others, and, unless the study
            retrains nothing, retrained with seeds that did not choose it.
        tied_with_best: whether its quality is not significantly worse than the best's; ``None`` unless verified.
        front_probability: that it is on the front of the finalists, given the noise; ``None`` where that is unknown.
        quality: the task's metrics by name.
        test: the task's test metrics by name; empty unless verified.
        measured: ``latency_ms``, ``parameters``, ``peak_memory_mb``, as far as they are known.
        latency: the profile at the longest sequence length that was timed; ``None`` where nothing was.
        shorter: those at the other lengths.
        finalist: its index among the finalists; ``None`` unless verified.
    """

    letter: str
    plan: HeadPlan
    params: Mapping[str, ParamValue]
    labels: tuple[str, ...]
    baseline: bool
    trial: int | None
    recommended: bool
    on_front: bool
    feasible: bool
    in_space: bool
    verified: bool
    tied_with_best: bool | None
    quality: Mapping[str, Estimate]
    test: Mapping[str, Estimate]
    measured: Mapping[str, float]
    latency: LatencyProfile | None
    hold: Hold
    weights: Weights
    shorter: Mapping[int, LatencyProfile] = field(default_factory=dict)
    finalist: int | None = None
    front_probability: float | None = None

    @property
    def seeds(self) -> int:
        """How many seeds stand behind the quality."""
        return max((estimate.seeds for estimate in self.quality.values()), default=0)

    def value(self, metric: str) -> float | None:
        """The mean or measured value of a metric; ``None`` where it is not known."""
        if metric in self.quality:
            return self.quality[metric].mean
        return self.measured.get(metric)

    def deviation(self, metric: str) -> float | None:
        """The standard deviation over seeds; ``None`` for a measured metric and with one seed."""
        return self.quality[metric].deviation if metric in self.quality else None

    def profile(self, metric: str) -> LatencyProfile | None:
        """The profile behind a latency metric; ``None`` for any other metric, and where nothing was timed."""
        return profile_of(metric, self.latency, self.shorter) if is_latency(metric) else None

    def interval_ms(self, metric: str) -> tuple[float, float] | None:
        """95 % interval of a latency metric: that of the ratio to the present plan, on the frozen reference's scale."""
        value, profile = self.measured.get(metric), self.profile(metric)
        if profile is None or value is None or profile.ratio == 0:
            return None
        scale = value / profile.ratio
        return profile.ratio_interval[0] * scale, profile.ratio_interval[1] * scale


def front_table(record: StudyRecord) -> tuple[FrontRow, ...]:
    """The plans worth showing, the fastest first: finalists, then the front's other plans.

    A study that has not been verified shows its front, and the present counts and the rule of thumb as soon as they
    have been trained.
    """
    front = {trial.number for trial in front_trials(record)}
    finalists = [_finalist_row(record, index, front) for index in range(len(record.finalists))]
    verified = set(map(_identity, finalists))
    others = [row for row in _searched_rows(record, front) if _identity(row) not in verified]
    rows = (*_sorted(record, finalists), *_sorted(record, others))
    return tuple(replace(row, letter=_letter(index)) for index, row in enumerate(rows))


def row_labelled(rows: Iterable[FrontRow], label: str) -> FrontRow | None:
    """The row of a baseline, before rows with its counts and other params; ``None`` where it is not shown."""
    named = sorted((row for row in rows if label in row.labels), key=lambda row: not row.baseline)
    return named[0] if named else None


def baseline_labels(record: StudyRecord, plan: HeadPlan) -> tuple[str, ...]:
    """The names of the baselines that are this plan."""
    return tuple(name for name, baseline in record.baselines.items() if baseline == plan)


def _finalist_row(record: StudyRecord, index: int, front: Set[int]) -> FrontRow:
    finalist = record.finalists[index]
    same = [trial for trial in record.trials if _identity(trial) == _identity(finalist)]
    best = sorted(same, key=lambda trial: (trial.number not in front, trial.kind != "baseline"))
    trial = best[0] if best else None
    return FrontRow(
        letter="",
        plan=finalist.plan,
        params=finalist.params,
        labels=finalist.labels,
        baseline=trial is not None and trial.kind == "baseline",
        trial=None if trial is None else trial.number,
        recommended=record.verdict is not None and record.verdict.recommended == index,
        on_front=trial is not None and trial.number in front,
        feasible=finalist.feasible,
        in_space=finalist.in_space,
        verified=True,
        tied_with_best=finalist.tied_with_best,
        quality={name: Estimate(values=values) for name, values in finalist.quality.items() if values},
        test={name: Estimate(values=values) for name, values in finalist.test.items() if values},
        measured=finalist.measured,
        latency=finalist.latency,
        shorter=finalist.shorter,
        hold=record.hold,
        weights=record.weights,
        finalist=index,
        front_probability=finalist.front_probability,
    )


def _searched_row(record: StudyRecord, trial: TrialRecord, on_front: bool) -> FrontRow:
    return FrontRow(
        letter="",
        plan=trial.plan,
        params=trial.params,
        labels=baseline_labels(record, trial.plan) if trial.kind == "baseline" else (),
        baseline=trial.kind == "baseline",
        trial=trial.number,
        recommended=False,
        on_front=on_front,
        feasible=trial.feasible,
        in_space=trial.in_space,
        verified=False,
        tied_with_best=None,
        quality={name: Estimate(values=(value,)) for name, value in trial.metrics.items() if not is_measured(name)},
        test={},
        measured={name: value for name, value in trial.metrics.items() if is_measured(name)},
        latency=trial.latency,
        shorter=trial.shorter,
        hold=record.hold,
        weights=record.weights,
    )


def _searched_rows(record: StudyRecord, front: Set[int]) -> list[FrontRow]:
    best = [trial for trial in record.trials if trial.number in front]
    finished = [trial for trial in record.trials if trial.kind == "baseline" and trial.outcome is Outcome.OK]
    marked = [trial for trial in finished if _MARKED.intersection(baseline_labels(record, trial.plan))]
    first = {_identity(trial): trial for trial in reversed((*best, *marked))}
    return [_searched_row(record, trial, trial.number in front) for trial in first.values()]


def _identity(judged: TrialRecord | Finalist | FrontRow) -> tuple[HeadPlan, tuple[tuple[str, ParamValue], ...]]:
    return judged.plan, tuple(sorted(judged.params.items()))


def _sorted(record: StudyRecord, rows: Iterable[FrontRow]) -> list[FrontRow]:
    """The cheapest first, by the first metric that headtune measures."""
    asked = [objective.metric for objective in record.objectives if objective.measured]
    metrics = (*asked, *MEASURED_METRICS)
    return sorted(rows, key=lambda row: (*(_known(row.value(metric)) for metric in metrics), row.plan))


def _known(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _letter(index: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    rest, place = divmod(index, len(ascii_uppercase))
    return (_letter(rest - 1) if rest else "") + ascii_uppercase[place]
