"""A model in which something was switched where it could be."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Switched:
    """A copy of a model, and which of its attention sites stayed as they were.

    Attributes:
        model: the copy; it shares nothing with the original.
        paths: of the sites that were switched.
        left_out: path of each other site → why, as half a sentence.
    """

    model: nn.Module
    paths: tuple[str, ...]
    left_out: Mapping[str, str]
