"""What another way to compute long sequences costs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headtune.timing.protocol import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class LongVariant:
    """Time and memory of a model with, and without, one way to spare long sequences.

    Attributes:
        name: ``window`` or ``checkpointing``.
        mode: what was timed; checkpointing spares memory in training steps alone.
        window: positions of the window.
        refused: why there are no figures, a sentence; they are ``None`` then.
        ratio: median over pairs of the time with it over the time without.
        ratio_interval: 95 % interval of the ratio.
        median_ms: with it.
        median_without_ms: without it, in the same run.
        memory_mb: peak memory of one pass with it, in MB of 10**6 bytes; ``None`` where the device does not tell.
        memory_without_mb: without it.
        left_out: path of each site that stayed as it was → why.
        doubts: what speaks against the times, a sentence each.
    """

    name: Literal["window", "checkpointing"]
    mode: Mode
    window: int | None = None
    refused: str | None = None
    ratio: float | None = None
    ratio_interval: tuple[float, float] | None = None
    median_ms: float | None = None
    median_without_ms: float | None = None
    memory_mb: float | None = None
    memory_without_mb: float | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LongVariant":
        """The inverse of :meth:`to_json`."""
        interval = data["ratio_interval"]
        pair = None if interval is None else (interval[0], interval[1])
        return cls(**{**data, "ratio_interval": pair, "doubts": tuple(data["doubts"])})
