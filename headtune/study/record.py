"""A study as it is read back from its storage, without the task: what the report and the front are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import mean

from headtune.heads.mask import HeadMask
from headtune.heads.plan import HeadPlan
from headtune.heads.ranking import HeadRanking
from headtune.heads.site import AttentionSite, Hold
from headtune.pareto.objective import Objective
from headtune.search.influence import Influence
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol
from headtune.trial.params import ParamValue
from headtune.trial.plan_scores import PlanScore
from headtune.trial.record import TrialRecord
from headtune.trial.setup import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRange:
    """What the profile found before any training.

    Attributes:
        plans: ``smallest``, ``rule``, ``present``, ``largest`` → plan.
        profiles: the same names → profile.
        reference_ms: the frozen median of the present plan, in ms.
        shorter: the same at the other sequence lengths, where several are timed; all else is at the longest.
    """

    plans: Mapping[str, HeadPlan]
    profiles: Mapping[str, LatencyProfile]
    reference_ms: float
    shorter: Mapping[int, "LatencyRange"] = field(default_factory=dict)

    def at(self, length: int | None) -> "LatencyRange":
        """What was found at one of the lengths that were timed."""
        return self if length is None else self.shorter.get(length, self)

    @property
    def by_length(self) -> tuple["LatencyRange", ...]:
        """What was found at each length that was timed, ascending."""
        return *self.shorter.values(), self

    @property
    def length(self) -> int | None:
        """The sequence length; ``None`` where the study names none, or nothing was timed."""
        return next((profile.protocol.length for profile in self.profiles.values()), None)

    @property
    def device_name(self) -> str:
        """What the device calls itself that all of it was timed on; empty where nothing was."""
        return next((profile.device_name for profile in self.profiles.values()), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A plan judged again: timed side by side with the others, retrained with seeds that did not choose it.

    Attributes:
        labels: baselines that are this plan (``present``, ``rule``, …); empty for a plan the search found.
        measured: ``latency_ms``, ``parameters``, ``peak_memory_mb``, as far as the study asks.
        latency: its new profile, at the longest sequence length; ``None`` where the study needs no latency.
        shorter: its new profiles at the other lengths, where several are timed.
        quality: metric → value per seed, in the order of the repeats.
        test: metric of ``Task.test`` → value per seed; empty without ``test``.
        tied_with_best: whether its quality is not significantly worse than the best finalist's.
        feasible: whether it meets every constraint, judged on the new profile.
        in_space: whether the search may choose it; a baseline outside of the space is only shown.
        front_probability: that it is on the front of the finalists that may be recommended, given the noise of the
            seeds and the intervals of the latencies; 0 for one that may not be, ``None`` where the noise is unknown.
    """

    plan: HeadPlan
    params: Mapping[str, ParamValue]
    labels: tuple[str, ...]
    measured: Mapping[str, float]
    latency: LatencyProfile | None
    quality: Mapping[str, tuple[float, ...]]
    test: Mapping[str, tuple[float, ...]]
    tied_with_best: bool
    feasible: bool
    in_space: bool = True
    shorter: Mapping[int, LatencyProfile] = field(default_factory=dict)
    front_probability: float | None = None

    def __repr__(self) -> str:
        values = [f"{metric}={mean(row):.6g}" for metric, row in self.quality.items() if row]
        values += [f"{metric}={value:.6g}" for metric, value in self.measured.items()]
        names = f" ({', '.join(self.labels)})" if self.labels else ""
        return f"Finalist('{self.plan.label}'{names}, {self.seeds} seeds, {', '.join(values)})"

    @property
    def able(self) -> bool:
        """Whether it may be recommended."""
        return self.feasible and self.in_space

    @property
    def seeds(self) -> int:
        """Trainings that it is judged by."""
        return max(map(len, self.quality.values()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the study recommends, and why.

    Attributes:
        recommended: index into the finalists; ``None`` where nothing is feasible.
        rule: how it was chosen, as a sentence.
        findings: plain sentences for the person: ties, noise, insensitivity to heads.
        better: differences beyond the noise: a metric of the task → pairs of indices into the finalists, the better
            one first; of a test metric, whose better direction is unknown, the lower one.
    """

    recommended: int | None
    rule: str
    findings: tuple[str, ...] = ()
    better: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def differ(self, metric: str, a: int, b: int) -> bool:
        """Whether two finalists differ in a metric of the task beyond the noise."""
        return bool({(a, b), (b, a)} & set(self.better.get(metric, ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether plans that a supernet finds better train better.

    Attributes:
        metric: the quality that is compared.
        plans: that the supernet scored and that were trained to the end.
        correlation: Spearman's rank correlation of the two; ``None`` for fewer than three plans, or equal qualities.
        p_value: how likely one as high is by chance alone; ``None`` with it.
    """

    metric: str
    plans: int
    correlation: float | None = None
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupernetRecord:
    """What the one training of all plans came to.

    Attributes:
        scores: of every plan that was scored.
        shortlist: the plans that are trained by themselves, in order, as far as the trials reach.
        ordered_by: measured objective → what stood in for it, in words.
        seconds: that the training and the scoring took.
        agreement: of these scores with the trainings so far.
    """

    scores: tuple[PlanScore, ...]
    shortlist: tuple[HeadPlan, ...]
    ordered_by: Mapping[str, str]
    seconds: float
    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """Everything a finished or running study knows.

    Attributes:
        constraints: constraint name → the sentence that states it (``latency_ms ≤ 1.5 × present``).
        limits: metric → resolved greatest allowed value.
        baselines: name → plan; several names may share a plan.
        trials: baselines and search, in the order of their numbers.
        verify_trials: the finalists' retrainings.
        reference_point: of the hypervolume, in the objectives' order; ``None`` until the baselines have finished.
        versions: package → version, and the platform.
        ranking: which trained heads stay under a plan; ``None`` where no weights are kept.
        trains: whether trials train; else a plan has one quality, without noise.
        influences: which choices mattered for each objective; empty until the search has ended.
        supernet: what a supernet said of the plans; ``None`` where none was trained.
    """

    name: str
    task: str
    seed: int
    hold: Hold
    weights: Weights
    sites: tuple[AttentionSite, ...]
    objectives: tuple[Objective, ...]
    constraints: Mapping[str, str]
    limits: Mapping[str, float]
    space_size: int
    sampler: str
    trials_asked: int
    epochs: int
    latency: LatencyProtocol | None
    latency_range: LatencyRange | None
    baselines: Mapping[str, HeadPlan]
    trials: tuple[TrialRecord, ...]
    verify_trials: tuple[TrialRecord, ...] = ()
    finalists: tuple[Finalist, ...] = ()
    verdict: Verdict | None = None
    reference_point: tuple[float, ...] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    ranking: HeadRanking | None = None
    trains: bool = True
    influences: tuple[Influence, ...] = ()
    supernet: SupernetRecord | None = None

    def __repr__(self) -> str:
        chosen = self.recommended
        advice = "nothing recommended" if chosen is None else f"recommended '{chosen.plan.label}'"
        return f"StudyRecord('{self.name}', {len(self.trials)} trials, {len(self.finalists)} finalists, {advice})"

    @property
    def recommended(self) -> Finalist | None:
        """What the study recommends; ``None`` before there is a verdict, and where nothing is feasible."""
        chosen = None if self.verdict is None else self.verdict.recommended
        return None if chosen is None else self.finalists[chosen]

    @property
    def present(self) -> HeadPlan:
        """The counts the model has today."""
        return self.baselines["present"]

    def kept(self, plan: HeadPlan) -> HeadMask | None:
        """The trained heads that stay under *plan*; ``None`` where no weights are kept."""
        return None if self.ranking is None else self.ranking.mask(plan, self.sites)
