"""How a latency is measured."""

from dataclasses import dataclass
from typing import Literal, get_args

from headtune.errors import InputError

Dtype = Literal["float32", "float16", "bfloat16"]


MOST_THREADS = 1024
"""More are a slip of the pen, and would stall the machine."""


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
        min_samples: pairs wanted at least; fewer, but never under six, where ``max_seconds`` ends first.
        max_seconds: the measuring of one plan ends after this time, settled or not.
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
        problems = [*self._unknown_choices(), *self._too_small()]
        if problems:
            raise InputError(*problems)

    def _unknown_choices(self) -> list[str]:
        choices = {"dtype": (self.dtype, get_args(Dtype)), "mode": (self.mode, ("forward",))}
        return [
            f"LatencyProtocol.{name} is {value!r}; use {' or '.join(known)}"
            for name, (value, known) in choices.items()
            if value not in known
        ]

    def _too_small(self) -> list[str]:
        counts = {
            "threads": self.threads,
            "batch_size": self.batch_size,
            "seq_len": self.seq_len,
            "min_samples": self.min_samples,
        }
        too_many = self.threads is not None and self.threads > MOST_THREADS
        amounts = {"max_seconds": self.max_seconds, "precision": self.precision}
        return [
            *(f"LatencyProtocol.{name} is {n}; use 1 or more" for name, n in counts.items() if n is not None and n < 1),
            *(f"LatencyProtocol.{name} is {x}; use more than 0" for name, x in amounts.items() if not x > 0),
            *([f"LatencyProtocol.threads is {self.threads}; use at most {MOST_THREADS}"] if too_many else []),
        ]
