"""A trial as the durable study remembers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headtune.heads.plan import HeadPlan
from headtune.pareto.objective import is_measured
from headtune.timing.profile import LatencyProfile
from headtune.trial.messages import Kind, Measurement
from headtune.trial.outcome import Outcome
from headtune.trial.params import ParamValue

OUTSIDE = "outside the space"
"""The mark of a plan that is only compared with: what the person allowed does not hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """Everything known of one trial.

    Attributes:
        number: the trial's number in its durable study.
        kind: ``baseline``, ``search`` or ``verify``.
        label: a baseline's name, else empty.
        outcome: how it ended; ``None`` while it runs.
        message: the reason in a sentence for the person.
        metrics: final values by name: the task's own, and ``latency_ms``, ``parameters``, ``peak_memory_mb``.
        test_metrics: the task's ``test``, for verify trials only.
        violations: constraint name → amount; ≤ 0 is met.
        latency: the profile behind ``latency_ms``; where several sequence lengths are timed, at the longest.
        shorter: the profiles at the others, by length.
        curve: (report number from 1, value) of the first quality objective's metric.
        seconds: phase → wall seconds.
        in_space: whether the search may choose its plan; a baseline outside of the space is only compared with.
    """

    number: int
    kind: Kind
    label: str
    plan: HeadPlan
    params: Mapping[str, ParamValue]
    repeat: int
    seed: int
    outcome: Outcome | None
    message: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    test_metrics: Mapping[str, float] = field(default_factory=dict)
    violations: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[int, float], ...] = ()
    latency: LatencyProfile | None = None
    shorter: Mapping[int, LatencyProfile] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    started: datetime | None = None
    ended: datetime | None = None
    in_space: bool = True

    def __repr__(self) -> str:
        state = "running" if self.outcome is None else self.outcome.value
        values = "".join(f", {name}={value:.6g}" for name, value in self.metrics.items())
        params = f", params={dict(self.params)}" if self.params else ""
        return f"TrialRecord({self.number}, {self.kind}, '{self.plan.label}'{params}, {state}{values})"

    @property
    def title(self) -> str:
        """What a line about it begins with: ``trial 7 (present) 8-8-4``, ``verification 0 8-8-4``.

        The search and the verification count each by itself.
        """
        name = "verification" if self.kind == "verify" else "trial"
        marks = ", ".join(mark for mark in (self.label, "" if self.in_space else OUTSIDE) if mark)
        return f"{name} {self.number}{f' ({marks})' if marks else ''} {self.plan.label}"

    @property
    def feasible(self) -> bool:
        """Whether every constraint is met."""
        return all(amount <= 0 for amount in self.violations.values())

    @property
    def measurement(self) -> Measurement:
        """What was known before it trained."""
        metrics = {name: value for name, value in self.metrics.items() if is_measured(name)}
        return Measurement(metrics=metrics, latency=self.latency, violations=self.violations, shorter=self.shorter)

    @property
    def trained(self) -> bool:
        """Whether it ended as one that counts against the number of trials."""
        return self.outcome is not None and self.outcome.trained

    @property
    def failed(self) -> bool:
        """Whether it ended as nobody asked for."""
        return self.outcome is not None and self.outcome.failed

    @property
    def on_offer(self) -> bool:
        """Whether the trial may enter a front: trained to the end and feasible."""
        return self.outcome is Outcome.OK and self.feasible
