"""How a latency is measured."""

from dataclasses import dataclass
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import InputError

Dtype = Literal["float32", "float16", "bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyProtocol:
    """Everything that must be equal for two latencies to be comparable.

    Attributes:
        device: ``auto`` (the first GPU if there is one, else the CPU), ``cpu``, ``cuda`` or ``cuda:<index>``.
        threads: intra-op CPU threads; ``None`` for the trial's CPUs (``auto`` in a study file).
        dtype: ``float32``, ``float16`` or ``bfloat16``; a model of another one is timed as a cast copy.
        batch_size: examples per forward pass.
        seq_len: sequence length handed to the task's ``inputs``; ``None`` where the task needs none.
        mode: what is timed.
        min_samples: pairs wanted at least; fewer, but never under six, where five times ``max_seconds`` end first.
        max_seconds: the measuring of one plan ends after this time, settled or not, once it has ``min_samples``.
        precision: wanted half-width of the ratio's 95 % interval, relative to the ratio.

    Raises:
        InputError: a value that no measurement could obey.
    """

    device: str = "auto"
    threads: int | None = None
    dtype: Dtype = "float32"
    batch_size: int = 32
    seq_len: int | None = None
    mode: Literal["forward"] = "forward"
    min_samples: int = 30
    max_seconds: float = 2.0
    precision: float = 0.02

    def __post_init__(self) -> None:
        problems = rules.broken(
            {
                "device": (self.device, rules.device),
                "threads": (self.threads, rules.optional(rules.at_least(1, rules.MOST_THREADS))),
                "dtype": (self.dtype, rules.one_of(get_args(Dtype))),
                "batch_size": (self.batch_size, rules.count),
                "seq_len": (self.seq_len, rules.optional(rules.count)),
                "mode": (self.mode, rules.one_of(("forward",))),
                "min_samples": (self.min_samples, rules.count),
                "max_seconds": (self.max_seconds, rules.positive),
                "precision": (self.precision, rules.positive),
            }
        )
        if problems:
            raise InputError(*(f"LatencyProtocol.{problem}" for problem in problems))
