"""One attention block of a model, and the counts it has today."""

import re
from dataclasses import dataclass
from typing import Literal

from headtune.heads.count import HeadCount

Role = Literal["self", "causal", "cross"]
"""What a site attends to: its own sequence, its own past, another sequence."""

Hold = Literal["width", "head_dim"]
"""What stays the same when the number of heads changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSite:
    """One attention block of the model, as the model really computes.

    Attributes:
        path: the module's name in ``model.named_modules()``.
        role: ``self``, ``causal`` or ``cross``.
        embed_dim: features of the residual stream that the block reads and writes.
        num_heads: query heads.
        num_kv_heads: key/value heads; equal to ``num_heads`` without groups.
        head_dim: features per head.
    """

    path: str
    role: Role
    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def width(self) -> int:
        """Features over all query heads: ``num_heads * head_dim``."""
        return self.num_heads * self.head_dim

    @property
    def group_size(self) -> int:
        """Query heads per key/value head."""
        return self.num_heads // self.num_kv_heads

    @property
    def present(self) -> HeadCount:
        """The counts the site has today."""
        return HeadCount(self.num_heads, self.num_kv_heads, self.head_dim)

    @property
    def stack(self) -> tuple[str, Role]:
        """The stack of layers the site belongs to: its path with layer numbers as ``*``, and its role."""
        return stack_path(self.path), self.role


def the_sites(value: object) -> str:
    """The rule that a value is the sites of a model."""
    every = isinstance(value, list | tuple) and all(isinstance(site, AttentionSite) for site in value)
    return "" if every else "must be the model's, as headtune.sites(model, inputs) gives them"


def stack_path(path: str) -> str:
    """A path with layer numbers as ``*``."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)
