"""What is known of a plan before it trains: parameters, latency, memory, and the constraints they break."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from torch import nn

from headtune.errors import OtherDeviceError
from headtune.heads import HeadPlan
from headtune.timing import Lane, LatencyProfile, count_parameters, measure, peak_memory_mb
from headtune.timing.lengths import profile_of
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
        peak_memory_mb: of one pass of the protocol, at the longest sequence length.
        latencies: timed in pairs with the present plan, by sequence length, ascending; ``None`` where the study names
            none. Empty where nothing is timed.
        is_reference: whether it is the present plan's own model: its ratio to itself is 1, whatever the noise says.
    """

    parameters: int
    peak_memory_mb: float | None = None
    latencies: Mapping[int | None, LatencyProfile] = field(default_factory=dict)
    is_reference: bool = False

    @property
    def latency(self) -> LatencyProfile | None:
        """The profile at the longest length that was timed."""
        return list(self.latencies.values())[-1] if self.latencies else None

    @property
    def shorter(self) -> dict[int, LatencyProfile]:
        """The profiles at the other lengths."""
        lengths = [length for length in self.latencies if length is not None]
        return {length: self.latencies[length] for length in lengths[:-1]}

    def metrics(self, reference_ms: Mapping[str, float], *, upper: bool = False) -> dict[str, float]:
        """The values by metric; a latency is ratio × its *reference_ms*, its interval's upper end if *upper*."""
        values: dict[str, float] = {"parameters": self.parameters}
        if self.peak_memory_mb is not None:
            values["peak_memory_mb"] = self.peak_memory_mb
        for metric, ms in reference_ms.items():
            profile = profile_of(metric, self.latency, self.shorter)
            if profile is not None:
                ratio = profile.ratio_interval[1] if upper else profile.ratio
                values[metric] = (1 if self.is_reference else ratio) * ms
        return values

    def retimed(self, again: Mapping[int | None, LatencyProfile]) -> "Profiled":
        """The same with what was timed *again*, as far as it is more precise."""
        sharper = {
            length: profile for length, profile in again.items() if _width(profile) < _width(self.latencies[length])
        }
        return replace(self, latencies={**self.latencies, **sharper})


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
        shorter=seen.shorter,
    )


def _decided(setup: TrialSetup, task: Task, one: Candidate, model: nn.Module, lane: Lane) -> Profiled:
    """Measure once, and again while nothing but a measurement that never settled speaks against the plan.

    The most precise measurement counts.
    """
    reference = _reference(setup, task)
    seen = _profile(setup, task, one, model, reference, lane)
    for _ in range(DOUBTS):
        doubtful = _in_doubt(setup, seen)
        if reference is None or not doubtful:
            break
        seen = seen.retimed(_timed(setup, task, model, reference, lane, doubtful))
    return seen


def _in_doubt(setup: TrialSetup, seen: Profiled) -> list[int | None]:
    """The lengths at which a latency meets its limit, but the interval of one that never settled reaches beyond it."""
    middle, upper = seen.metrics(setup.reference_ms), seen.metrics(setup.reference_ms, upper=True)
    unsettled = {length for length, profile in seen.latencies.items() if not profile.settled}
    return [
        length
        for metric, length in setup.timed.items()
        if metric in setup.limits
        and metric in middle
        and length in unsettled
        and middle[metric] <= setup.limits[metric] < upper[metric]
    ]


def _width(profile: LatencyProfile) -> float:
    """Of the latency ratio's interval."""
    low, high = profile.ratio_interval
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
    if not setup.timed:
        return None
    return build_planned(setup, task, setup.present, setup.baseline_params, REFERENCE_SEED)


def _check_device(setup: TrialSetup, latency: LatencyProfile) -> None:
    """A ratio that one device gives says nothing of the milliseconds of another.

    Raises:
        OtherDeviceError: the reference was timed on another device.
    """
    if setup.reference_device not in ("", latency.device_name):
        raise OtherDeviceError(
            f"timed on {latency.device_name}{latency.host and f' of machine {latency.host}'}, but the study's "
            f"reference on {setup.reference_device}: latencies of two devices cannot be compared; bind the study to "
            "machines with one of them by resources.accelerator or resources.node, or begin another for the other"
        )


def _profile(
    setup: TrialSetup, task: Task, one: Candidate, model: nn.Module, reference: nn.Module | None, lane: Lane
) -> Profiled:
    latencies = {} if reference is None else _timed(setup, task, model, reference, lane, setup.lengths)
    protocol = setup.latency.at(setup.latency.lengths[-1])
    peak_mb = None
    if setup.needs_memory:
        loss, protocol = timed_loss(task, protocol)
        peak_mb = peak_memory_mb(model, partial(inputs_of, task), protocol, loss=loss)
    return Profiled(
        parameters=count_parameters(model),
        peak_memory_mb=peak_mb,
        latencies=latencies,
        is_reference=one.plan == setup.present
        and named_params(task.model, one.params) == named_params(task.model, setup.baseline_params),
    )


def _timed(
    setup: TrialSetup, task: Task, model: nn.Module, reference: nn.Module, lane: Lane, lengths: Sequence[int | None]
) -> dict[int | None, LatencyProfile]:
    """The model's latency at each of *lengths*.

    Raises:
        OtherDeviceError: the study's reference was timed on another device.
    """
    found = {}
    for length in lengths:
        loss, protocol = timed_loss(task, setup.latency.at(length))
        profile = measure(model, partial(inputs_of, task), protocol, reference=reference, lane=lane, loss=loss)
        _check_device(setup, profile)
        found[length] = profile
    return found
