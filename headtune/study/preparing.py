"""From a checked study to what its workers need."""

from collections.abc import Mapping
from dataclasses import replace

from headtune.errors import MeasurementError, SpecError
from headtune.heads import HeadRanking
from headtune.study.checking import Checked
from headtune.study.record import LatencyRange
from headtune.study.spec import StudySpec
from headtune.timing import LatencyProtocol, resolve
from headtune.timing.lengths import timed_lengths
from headtune.trial.params import baseline_values
from headtune.trial.setup import TrialSetup


def protocol_of(spec: StudySpec) -> LatencyProtocol:
    """The study's protocol, resolved: ``auto`` is the GPU of a trial that has one, else the CPU; threads its CPUs.

    Raises:
        SpecError: the study asks for a GPU that is not there.
    """
    device = "cuda" if spec.resources.gpus > 0 else "cpu"
    protocol = spec.latency
    remote = spec.executor == "ray" and spec.resources.cluster != "local" and spec.resources.gpus > 0
    if remote and protocol.device in ("auto", "cuda"):
        # This process needs no GPU of its own, and Ray shows a worker no others than the trial's.
        return replace(protocol, device="cuda:0", threads=protocol.threads or spec.resources.cpus)
    place = f"latency.device is {protocol.device}"
    if protocol.device == "auto":
        place = f"resources.gpus is {spec.resources.gpus:g}, which must be 0 without a GPU"
        protocol = replace(protocol, device=device)
    try:
        return resolve(protocol, cpus=spec.resources.cpus)
    except MeasurementError as error:
        raise SpecError(*(f"{place}: {problem}" for problem in error.problems)) from None


def needs(spec: StudySpec, metric: str) -> bool:
    """Whether *metric*, at whatever sequence length, is an objective or limited."""
    return any(asked.partition("@")[0] == metric for asked in asked_metrics(spec))


def asked_metrics(spec: StudySpec) -> tuple[str, ...]:
    """The metrics that are objectives or limited, each once."""
    named = [goal.metric for goal in spec.objectives] + [limit.metric for limit in spec.limits]
    return tuple(dict.fromkeys(named))


def trial_setup(
    spec: StudySpec,
    checked: Checked,
    *,
    ranking: HeadRanking | None = None,
    limits: Mapping[str, float] | None = None,
    found: LatencyRange | None = None,
) -> TrialSetup:
    """What every worker of the study needs; without *found* nothing is timed against a reference yet."""
    latency = protocol_of(spec)
    timed = timed_lengths(asked_metrics(spec), latency)
    return TrialSetup(
        task=spec.task,
        sites=checked.sites,
        hold=spec.space.hold,
        weights=spec.weights,
        objectives=spec.objectives,
        head_dim=spec.space.head_dim,
        limits=limits or {},
        latency=latency,
        timed=timed,
        needs_memory=needs(spec, "peak_memory_mb"),
        present=checked.baselines["present"],
        ranking=ranking,
        reference_ms={}
        if found is None
        else {metric: found.at(length).reference_ms for metric, length in timed.items()},
        reference_device="" if found is None else found.device_name,
        baseline_params=baseline_values(spec.params),
        threads=spec.resources.cpus,
        device="cuda" if spec.resources.gpus > 0 else "cpu",
        scratch=None if spec.output is None else spec.output / "checkpoints",
        models_dir=None if spec.output is None else spec.output / "models",
    )
