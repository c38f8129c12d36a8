"""How a latency is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import headtune.rules as rules
from headtune.errors import InputError

Dtype = Literal["float32", "float16", "bfloat16"]
Half = Literal["float16", "bfloat16"]
Mode = Literal["forward", "train_step", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyProtocol:
    """Everything that must be equal for two latencies to be comparable.

    Attributes:
        device: ``auto`` (the first GPU if there is one, else the CPU), ``cpu``, ``cuda``, ``cuda:<index>``, ``mps``,
            ``xpu`` or ``xpu:<index>``.
        threads: intra-op CPU threads; ``None`` for the trial's CPUs (``auto`` in a study file).
        dtype: ``float32``, ``float16`` or ``bfloat16``; a model of another one is timed as a cast copy.
        autocast: the dtype of autocast; ``None`` for none.
        batch_size: examples per pass.
        seq_len: sequence length handed to the task's ``inputs``, or several in ascending order, each timed by itself;
            ``None`` where the task needs none.
        mode: what is timed: ``forward`` in eval and inference mode; ``train_step``, which is forward, backward and a
            step of AdamW in training mode, in a study on the task's ``loss`` and first batch unless ``seq_len`` is
            named; ``decode``, which is one token after a KV cache of ``seq_len`` tokens.
        compile: whether the model is timed as ``torch.compile`` makes it; compiling itself is not timed.
        cuda_graphs: whether the pass is captured once and replayed, which leaves out the cost of launching it.
        min_samples: pairs wanted at least; fewer, but never under six, where five times ``max_seconds`` end first.
        max_seconds: the measuring of one plan ends after this time, settled or not, once it has ``min_samples``.
        precision: wanted half-width of the ratio's 95 % interval, relative to the ratio.

    Raises:
        InputError: a value that no measurement could obey.
    """

    device: str = "auto"
    threads: int | None = None
    dtype: Dtype = "float32"
    autocast: Half | None = None
    batch_size: int = 32
    seq_len: int | tuple[int, ...] | None = None
    mode: Mode = "forward"
    compile: bool = False
    cuda_graphs: bool = False
    min_samples: int = 30
    max_seconds: float = 1.5
    precision: float = 0.02

    def __post_init__(self) -> None:
        if isinstance(self.seq_len, list):
            object.__setattr__(self, "seq_len", tuple(self.seq_len))
        problems = rules.broken(
            {
                "device": (self.device, rules.device),
                "threads": (self.threads, rules.optional(rules.at_least(1, rules.MOST_THREADS))),
                "dtype": (self.dtype, rules.one_of(get_args(Dtype))),
                "autocast": (self.autocast, rules.optional(rules.one_of(get_args(Half)))),
                "batch_size": (self.batch_size, rules.count),
                "seq_len": (self.seq_len, rules.optional(rules.lengths)),
                "mode": (self.mode, rules.one_of(get_args(Mode))),
                "compile": (self.compile, rules.truth),
                "cuda_graphs": (self.cuda_graphs, rules.truth),
                "min_samples": (self.min_samples, rules.count),
                "max_seconds": (self.max_seconds, rules.positive),
                "precision": (self.precision, rules.positive),
            }
        ) or rules.sentences(
            rules.timing(self.device, self.mode, dtype=self.dtype, autocast=self.autocast, cuda_graphs=self.cuda_graphs)
        )
        if problems:
            raise InputError(*(f"LatencyProtocol.{problem}" for problem in problems))

    @property
    def lengths(self) -> Sequence[int | None]:
        """The sequence lengths that are timed, ascending; ``(None,)`` where the task needs none."""
        return self.seq_len if isinstance(self.seq_len, tuple) else (self.seq_len,)

    @property
    def length(self) -> int | None:
        """The one sequence length that is timed.

        Raises:
            InputError: there are several.
        """
        if isinstance(self.seq_len, tuple):
            raise InputError(
                f"LatencyProtocol.seq_len: one pass has one length, and {len(self.seq_len)} are named; "
                f"write protocol.at({self.seq_len[-1]})"
            )
        return self.seq_len

    def at(self, seq_len: int | None) -> "LatencyProtocol":
        """The same protocol for one sequence length."""
        return replace(self, seq_len=seq_len)
