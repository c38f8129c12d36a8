"""One adapter per family of attention modules."""

from torch import nn

from headtune.surgery.adapters.adapter import Adapter
from headtune.surgery.adapters.handwritten import Handwritten
from headtune.surgery.adapters.headed import Headed
from headtune.surgery.adapters.hugging_face import HuggingFace
from headtune.surgery.adapters.input_sized import InputSized
from headtune.surgery.adapters.registered import Registered, check_adapter
from headtune.surgery.adapters.torch_mha import TorchMHA

_WHOLE: tuple[Adapter, ...] = (Headed(), TorchMHA())
_REGISTERED: list[Adapter] = []

FALLBACK: Adapter = Handwritten()
"""For every other module."""

SECOND_FALLBACK: Adapter = InputSized()
"""For a module that the fallback could not resize."""


def register_adapter(adapter: Adapter) -> None:
    """Let *adapter* serve the modules that it matches, before every other one; the last one registered comes first.

    Register it where the model is defined: workers import the task's file, and so know it too. Its class of modules is
    taken for whole blocks, as that of ``nn.MultiheadAttention`` is. Check it with :func:`headtune.surgery.conformance`.

    Args:
        adapter: easiest written as a subclass of :class:`headtune.surgery.Handwritten`.

    Raises:
        SurgeryError: it lacks members of :class:`headtune.surgery.Adapter` (every one).
    """
    check_adapter(adapter)
    _REGISTERED.insert(0, Registered(adapter))


def whole_blocks() -> tuple[Adapter, ...]:
    """The adapters of families whose class is the whole block."""
    return (*_REGISTERED, *_WHOLE)


def adapters() -> tuple[Adapter, ...]:
    """The adapters of families that are known by their class, the first match first."""
    return (*whole_blocks(), HuggingFace())


def adapter_for(module: nn.Module) -> Adapter:
    """The adapter of the family that *module* is of."""
    return next((adapter for adapter in adapters() if adapter.matches(module)), FALLBACK)


__all__ = [
    "FALLBACK",
    "SECOND_FALLBACK",
    "Adapter",
    "Handwritten",
    "Headed",
    "HuggingFace",
    "InputSized",
    "TorchMHA",
    "adapter_for",
    "adapters",
    "register_adapter",
    "whole_blocks",
]
