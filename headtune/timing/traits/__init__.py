"""What a model's pass is made of: its attention's share, what it is bound by, its kernels, head dimensions that fit."""

from headtune.timing.traits.alignment import VECTOR, unaligned, wanted_multiples
from headtune.timing.traits.extent import Extent, attention_extent
from headtune.timing.traits.kernels import KERNELS, WRITTEN_OUT, attention_kernels
from headtune.timing.traits.launching import Bound, LaunchTest, launch_test
from headtune.timing.traits.share import AttentionShare, attention_share

__all__ = [
    "KERNELS",
    "VECTOR",
    "WRITTEN_OUT",
    "AttentionShare",
    "Bound",
    "Extent",
    "LaunchTest",
    "attention_extent",
    "attention_kernels",
    "attention_share",
    "launch_test",
    "unaligned",
    "wanted_multiples",
]
