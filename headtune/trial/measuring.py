"""What is known of a plan before it trains: parameters, latency, memory, and the constraints they break."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from headtune.heads import HeadPlan
from headtune.timing import Lane, LatencyProfile, count_parameters, measure, peak_memory_mb
from headtune.trial.build import build_planned, inputs_of, named_params
from headtune.trial.messages import Measurement, TrialRequest
from headtune.trial.params import ParamValue
from headtune.trial.setup import TrialSetup
from headtune.trial.task import Task
from headtune.trial.timed_loss import timed_loss

REFERENCE_SEED = 0
"""Weights do not move latency; one seed serves every model that is only timed."""

DOUBTS = 2
"""So often a plan is measured again before the noise of a measurement rejects it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan to profile, with the params its model is built with."""

    plan: HeadPlan
    params: Mapping[str, ParamValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """What was measured of one plan; ``None`` where the study does not ask.

    Attributes:
        parameters: weights of the model.
        peak_memory_mb: of one pass of the protocol.
        latency: timed in pairs with the present plan.
        is_reference: whether it is the present plan's own model: its ratio to itself is 1, whatever the noise says.
    """

    parameters: int
    peak_memory_mb: float | None = None
    latency: LatencyProfile | None = None
    is_reference: bool = False

    def metrics(self, reference_ms: float | None, *, upper: bool = False) -> dict[str, float]:
        """The values by metric; ``latency_ms`` is ratio × *reference_ms*, its interval's upper end if *upper*."""
        values: dict[str, float] = {"parameters": self.parameters}
        if self.peak_memory_mb is not None:
            values["peak_memory_mb"] = self.peak_memory_mb
        if self.latency is not None and reference_ms is not None:
            ratio = self.latency.ratio_interval[1] if upper else self.latency.ratio
            values["latency_ms"] = (1 if self.is_reference else ratio) * reference_ms
        return values


def lane_of(setup: TrialSetup) -> Lane:
    """The lane of the trial's device on this node."""
    return Lane(setup.lane_dir, setup.device)


def violations(setup: TrialSetup, plan: HeadPlan, seen: Profiled) -> dict[str, float]:
    """Constraint → by how much *plan* breaks it; ≤ 0 is met. A latency is judged by the upper end of its interval."""
    metrics = seen.metrics(setup.reference_ms, upper=True)
    amounts = {metric: metrics[metric] - most for metric, most in setup.limits.items() if metric in metrics}
    if setup.head_dim is not None:
        amounts[setup.head_dim.name] = setup.head_dim.plan_violation(plan)
    return amounts


def measure_trial(setup: TrialSetup, task: Task, request: TrialRequest, model: nn.Module, lane: Lane) -> Measurement:
    """Measure *model* for the study's objectives and constraints.

    A search trial that breaks a constraint by its counts or parameters alone is not timed any more, and one whose model
    was measured for an earlier trial is not measured again.
    """
    if request.measurement is not None:
        return request.measurement
    seen = Profiled(parameters=count_parameters(model))
    broken = any(amount > 0 for amount in violations(setup, request.plan, seen).values())
    if not (broken and request.kind == "search"):
        candidate = Candidate(plan=request.plan, params=request.params)
        seen = _decided(setup, task, candidate, model, lane)
    return Measurement(
        metrics=seen.metrics(setup.reference_ms),
        latency=seen.latency,
        violations=violations(setup, request.plan, seen),
    )


def _decided(setup: TrialSetup, task: Task, one: Candidate, model: nn.Module, lane: Lane) -> Profiled:
    """Measure once, and again while nothing but a measurement that never settled speaks against the plan.

    The most precise measurement counts.
    """
    reference = _reference(setup, task)
    seen = _profile(setup, task, one, model, reference, lane)
    for _ in range(DOUBTS):
        if not _in_doubt(setup, seen):
            break
        again = _profile(setup, task, one, model, reference, lane)
        seen = min(seen, again, key=_width)
    return seen


def _in_doubt(setup: TrialSetup, seen: Profiled) -> bool:
    """Whether the latency meets its limit, but the interval of a measurement that never settled reaches beyond it."""
    limits = {metric: most for metric, most in setup.limits.items() if metric.partition("@")[0] == "latency_ms"}
    if seen.latency is None or seen.latency.settled:
        return False
    middle, upper = seen.metrics(setup.reference_ms), seen.metrics(setup.reference_ms, upper=True)
    return any(middle[metric] <= most < upper[metric] for metric, most in limits.items() if metric in middle)


def _width(seen: Profiled) -> float:
    """Of the latency ratio's interval."""
    low, high = (0.0, 0.0) if seen.latency is None else seen.latency.ratio_interval
    return high - low


def profile_candidates(setup: TrialSetup, candidates: Sequence[Candidate]) -> tuple[Profiled, ...]:
    """Measure each candidate, its latency in pairs with the present plan's."""
    task = setup.task.load()
    lane = lane_of(setup)
    with lane.shared():
        reference = _reference(setup, task)
        models = (build_planned(setup, task, one.plan, one.params, REFERENCE_SEED) for one in candidates)
        return tuple(
            _profile(setup, task, one, model, reference, lane) for one, model in zip(candidates, models, strict=True)
        )


def _reference(setup: TrialSetup, task: Task) -> nn.Module | None:
    """The model that every latency is measured in pairs with; ``None`` where none is measured."""
    if not setup.needs_latency:
        return None
    return build_planned(setup, task, setup.present, setup.baseline_params, REFERENCE_SEED)


def _profile(
    setup: TrialSetup, task: Task, one: Candidate, model: nn.Module, reference: nn.Module | None, lane: Lane
) -> Profiled:
    latency, inputs = None, partial(inputs_of, task)
    loss, protocol = timed_loss(task, setup.latency)
    if reference is not None:
        latency = measure(model, inputs, protocol, reference=reference, lane=lane, loss=loss)
    return Profiled(
        parameters=count_parameters(model),
        peak_memory_mb=peak_memory_mb(model, inputs, protocol, loss=loss) if setup.needs_memory else None,
        latency=latency,
        is_reference=one.plan == setup.present
        and named_params(task.model, one.params) == named_params(task.model, setup.baseline_params),
    )
