"""What was timed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import headtune.rules as rules
from headtune.errors import InputError
from headtune.timing.protocol import LatencyProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyProfile:
    """The latency of one model under one protocol, measured in pairs with a reference model.

    Attributes:
        protocol: how it was timed, with device and threads resolved.
        median_ms: median of the model's own samples.
        p90_ms: their 90th percentile.
        interval_ms: 95 % interval of the median.
        ratio: median over pairs of model time / reference time; 1.0 where there is no reference.
        ratio_interval: 95 % interval of the ratio.
        reference_median_ms: median of the reference's samples in the same run; ``None`` without a reference.
        samples: number of pairs kept.
        calls_per_sample: passes that one sample of the model averages; above 1 where one pass is too short to time.
        settled: whether the warm-up settled and the wanted precision was reached in the protocol's time.
        contended: whether others kept the device busy longer than the lane's patience.
        device_name: what the device calls itself.
        versions: of python, torch, the platform and the CPU.
        host: the machine that it was timed on; empty where it was kept before machines were.
        doubts: what speaks against the numbers, a sentence each: a warm-up that did not settle, a drift, processes that
            took the cores, a clock that did not wait, passes that draw random numbers.
        card: clocks, temperature and other processes of the GPU when it was done; empty elsewhere.

    Raises:
        InputError: every number that no measurement gives.
    """

    protocol: LatencyProtocol
    median_ms: float
    p90_ms: float
    interval_ms: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float]
    reference_median_ms: float | None
    samples: int
    calls_per_sample: int = 1
    settled: bool
    contended: bool
    device_name: str
    versions: Mapping[str, str]
    host: str = ""
    doubts: tuple[str, ...] = ()
    card: Mapping[str, str | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = rules.broken(
            {
                "protocol": (self.protocol, rules.a(LatencyProtocol, "a LatencyProtocol")),
                "median_ms": (self.median_ms, rules.positive),
                "p90_ms": (self.p90_ms, rules.positive),
                "interval_ms": (self.interval_ms, rules.interval),
                "ratio": (self.ratio, rules.positive),
                "ratio_interval": (self.ratio_interval, rules.interval),
                "reference_median_ms": (self.reference_median_ms, rules.optional(rules.positive)),
                "samples": (self.samples, rules.count),
            }
        )
        if problems:
            raise InputError(*(f"LatencyProfile.{problem}" for problem in problems))

    def __repr__(self) -> str:
        against = "" if self.reference_median_ms is None else f", {self.ratio:.4g} × the reference"
        doubts = len(self.doubts)
        words = f", {doubts} {'doubt' if doubts == 1 else 'doubts'}" if doubts else ""
        return (
            f"LatencyProfile({self.median_ms:.4g} ms{against}, p90 {self.p90_ms:.4g} ms, {self.samples} samples{words})"
        )

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the ratio."""
        return self.ratio_interval

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LatencyProfile":
        """The inverse of :meth:`to_json`."""
        pairs = {name: tuple(data[name]) for name in ("interval_ms", "ratio_interval")}
        pairs["doubts"] = tuple(data.get("doubts", ()))
        return cls(**{**data, **pairs, "protocol": LatencyProtocol(**data["protocol"])})
