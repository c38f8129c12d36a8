"""One adapter per family of attention modules."""

from torch import nn

from headtune.surgery.adapters.adapter import Adapter
from headtune.surgery.adapters.handwritten import Handwritten
from headtune.surgery.adapters.headed import Headed
from headtune.surgery.adapters.hugging_face import HuggingFace
from headtune.surgery.adapters.input_sized import InputSized
from headtune.surgery.adapters.torch_mha import TorchMHA

WHOLE: tuple[Adapter, ...] = (Headed(), TorchMHA())
"""The families whose class is the whole block."""

ADAPTERS: tuple[Adapter, ...] = (*WHOLE, HuggingFace())
"""The families that are known by their class."""

FALLBACK: Adapter = Handwritten()
"""For every other module."""

SECOND_FALLBACK: Adapter = InputSized()
"""For a module that the fallback could not resize."""


def adapter_for(module: nn.Module) -> Adapter:
    """The adapter of the family that *module* is of."""
    return next((adapter for adapter in ADAPTERS if adapter.matches(module)), FALLBACK)


__all__ = [
    "ADAPTERS",
    "FALLBACK",
    "SECOND_FALLBACK",
    "WHOLE",
    "Adapter",
    "Handwritten",
    "Headed",
    "HuggingFace",
    "InputSized",
    "TorchMHA",
    "adapter_for",
]
