"""What a model costs on a device: its latency beside a reference, its peak memory, its parameters."""

from headtune.timing.comparison import Comparison, compare
from headtune.timing.cost import count_parameters
from headtune.timing.device import resolve
from headtune.timing.interval import median_interval
from headtune.timing.lane import Lane
from headtune.timing.latency import measure
from headtune.timing.long import LongVariant, checkpointed, long_sequence_variants, windowed
from headtune.timing.memory import peak_memory_mb
from headtune.timing.profile import LatencyProfile
from headtune.timing.protocol import LatencyProtocol

__all__ = [
    "Comparison",
    "Lane",
    "LatencyProfile",
    "LatencyProtocol",
    "LongVariant",
    "checkpointed",
    "compare",
    "count_parameters",
    "long_sequence_variants",
    "measure",
    "median_interval",
    "peak_memory_mb",
    "resolve",
    "windowed",
]
