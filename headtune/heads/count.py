"""How many heads one site has."""

from typing import NamedTuple


class HeadCount(NamedTuple):
    """The counts of one site.

    Attributes:
        num_heads: query heads.
        num_kv_heads: key/value heads, a divisor of ``num_heads``.
        head_dim: features per head.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int

    def __str__(self) -> str:
        groups = "" if self.num_kv_heads == self.num_heads else f"/{self.num_kv_heads}"
        return f"{self.num_heads}{groups}x{self.head_dim}"
