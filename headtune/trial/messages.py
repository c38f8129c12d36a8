"""What crosses between the broker and a worker: plain frozen values that pickle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headtune.heads.plan import HeadPlan
from headtune.pareto.objective import is_latency
from headtune.timing.lengths import profile_of
from headtune.timing.profile import LatencyProfile
from headtune.trial.outcome import Outcome
from headtune.trial.params import ParamValue

Kind = Literal["baseline", "search", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """One training that the broker wants.

    Attributes:
        number: the trial's number in the durable study.
        kind: ``baseline`` (trained in full, even where it breaks a constraint), ``search`` or ``verify``.
        label: a baseline's name (``present``, ``rule``, …), else empty.
        plan: head counts for every site.
        params: extra hyper-parameters.
        repeat: 0 in search, 1 … n in verify.
        seed: derived from the study's seed and *repeat* alone, so equal across plans.
        epochs: what ``run.epochs`` says.
        key: hash of plan, params and repeat; names the trial's checkpoint, so that any rerun resumes it.
        measurement: that of an earlier trial whose model is the same, so that no two trials disagree on what it costs;
            ``None`` where it is still to be measured.
    """

    number: int
    kind: Kind
    label: str
    plan: HeadPlan
    params: Mapping[str, ParamValue]
    repeat: int
    seed: int
    epochs: int
    key: str
    measurement: "Measurement | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What is known of a plan before it trains.

    Attributes:
        metrics: ``parameters``; ``latency_ms`` (ratio × frozen reference) and ``peak_memory_mb`` where the study asks.
        latency: the profile behind ``latency_ms``; where several sequence lengths are timed, at the longest.
        shorter: the profiles at the others, by length.
        violations: constraint name → amount in the constraint's unit; ≤ 0 is met. Latency is judged by the upper end
            of its interval.
    """

    metrics: Mapping[str, float]
    latency: LatencyProfile | None
    violations: Mapping[str, float]
    shorter: Mapping[int, LatencyProfile] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether every constraint is met."""
        return all(amount <= 0 for amount in self.violations.values())

    @property
    def broken(self) -> str:
        """Which constraints are broken, and by how much, as a sentence."""
        broken = [self._broken(name, amount) for name, amount in self.violations.items() if amount > 0]
        return f"breaks {' and '.join(broken)}; known before training, so no epoch was paid"

    def _broken(self, name: str, amount: float) -> str:
        if name not in self.metrics:
            return f"{name} by {amount:.4g}"
        value, how = self.metrics[name], ""
        profile = profile_of(name, self.latency, self.shorter) if is_latency(name) else None
        if profile is not None:
            value *= profile.ratio_interval[1] / profile.ratio
            how = ", the upper end of its interval,"
        return f"{name}: {value:.4g}{how} where {value - amount:.4g} is allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """How a trial ended.

    Attributes:
        outcome: the way it ended.
        message: the reason in a sentence for the person; the outcome's own sentence where nothing more is known.
        metrics: the task's final metrics (``evaluate``, else the last report); empty unless trained to the end.
        test_metrics: the task's ``test``, for verify trials only.
        seconds: ``import``, ``build``, ``measure``, ``train``, ``evaluate``, ``test`` → wall seconds.
        detail: a traceback for the log, else empty.
        unfit: whether it crashed since what the task reports is not what the study asks for, whatever the plan.
        misplaced: whether it crashed since it ran on another device than the study's latencies count on: the plan had
            no chance.
    """

    outcome: Outcome
    message: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    test_metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    detail: str = ""
    unfit: bool = False
    misplaced: bool = False
