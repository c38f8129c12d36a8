"""What long sequences cost otherwise: with attention to the neighbourhood alone, or with activations computed again."""

from headtune.timing.long.checkpointing import checkpointed
from headtune.timing.long.switched import Switched
from headtune.timing.long.variant import LongVariant
from headtune.timing.long.variants import long_sequence_variants
from headtune.timing.long.window import windowed

__all__ = ["LongVariant", "Switched", "checkpointed", "long_sequence_variants", "windowed"]
