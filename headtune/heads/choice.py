"""A count as people write it, ``heads[/kv_heads][xhead_dim]``: what is left out follows from the site and the hold."""

import re
from typing import NamedTuple

from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite, Hold

# Nine digits are beyond any model, and well below the length at which int() itself refuses.
_WRITTEN = re.compile(r"([0-9]{1,9})(?:/([0-9]{1,9}))?(?:x([0-9]{1,9}))?")


class HeadChoice(NamedTuple):
    """One choice of counts that means something at every site it is legal for.

    Attributes:
        num_heads: query heads.
        num_kv_heads: key/value heads; ``None`` keeps the site's present group size.
        head_dim: features per head; ``None`` follows from the hold.
    """

    num_heads: int
    num_kv_heads: int | None = None
    head_dim: int | None = None

    @classmethod
    def parse(cls, text: str) -> "HeadChoice":
        """The inverse of ``str``.

        Raises:
            PlanError: *text* is not ``heads[/kv_heads][xhead_dim]`` in whole numbers of at least 1.
        """
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise PlanError(f"'{text}' is not a head count; write heads[/kv_heads][xhead_dim], as in 8, 8/2 or 8/2x32")
        heads, kv_heads, head_dim = (None if number is None else int(number) for number in match.groups())
        if heads is None or 0 in (heads, kv_heads, head_dim):
            raise PlanError(f"'{text}' holds a zero; heads, kv_heads and head_dim are at least 1")
        return cls(heads, kv_heads, head_dim)

    def __str__(self) -> str:
        groups = "" if self.num_kv_heads is None else f"/{self.num_kv_heads}"
        features = "" if self.head_dim is None else f"x{self.head_dim}"
        return f"{self.num_heads}{groups}{features}"

    def at(self, site: AttentionSite, hold: Hold) -> HeadCount:
        """The full counts at *site*; whether they are legal is the question of ``legal.problems``."""
        free_dim = site.width // self.num_heads if hold == "width" else site.head_dim
        return HeadCount(
            self.num_heads,
            self.num_heads // site.group_size if self.num_kv_heads is None else self.num_kv_heads,
            free_dim if self.head_dim is None else self.head_dim,
        )
