"""Which features of the projections around an attention block belong to which head: a frozen value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Features = Mapping[str, frozenset[int]]
"""Name of a weight → indices among the features that it puts out, or, of an output projection, reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The wires of one attention block, by query head.

    Attributes:
        q: for each head, the features of the projections that make its queries.
        k: the same for its keys; heads that share a key head have equal ones.
        v: the same for its values.
        out: for each head, the features of the output projection that read it.
    """

    q: tuple[Features, ...]
    k: tuple[Features, ...]
    v: tuple[Features, ...]
    out: tuple[Features, ...]

    @property
    def num_heads(self) -> int:
        """How many query heads."""
        return len(self.q)

    @property
    def num_kv_heads(self) -> int:
        """How many key heads differ."""
        return len(set(map(_frozen, self.k)))

    def of_heads(self, heads: Sequence[int]) -> dict[str, frozenset[int]]:
        """Every feature of a projection that one of the *heads* is made of, by weight."""
        return _union([side[head] for side in (self.q, self.k, self.v) for head in heads])

    def read_from(self, heads: Sequence[int]) -> dict[str, frozenset[int]]:
        """Every feature of the output projection that reads one of the *heads*."""
        return _union([self.out[head] for head in heads])

    def why_mixed(self) -> str | None:
        """Why heads cannot be told apart, as a sentence; ``None`` when each feature has its heads."""
        for words, side in (("queries", self.q), ("keys", self.k), ("values", self.v)):
            if not all(side):
                return f"its {words} come from no projection that headtune could follow"
            if _overlap(side, may_share=side is not self.q):
                return f"one feature of a projection feeds the {words} of several heads"
        if _overlap(self.out, may_share=False):
            return "one feature of its output projection reads several heads"
        return None


def _union(parts: Sequence[Features]) -> dict[str, frozenset[int]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: frozenset().union(*(part.get(name, frozenset()) for part in parts)) for name in names}


def _overlap(side: Sequence[Features], *, may_share: bool) -> bool:
    """Whether two heads have features in common without having all of them in common."""
    owners: dict[tuple[str, int], frozenset[tuple[str, frozenset[int]]]] = {}
    for features in side:
        whole = _frozen(features)
        for name, indices in features.items():
            for index in indices:
                known = owners.get((name, index))
                if known is not None and (known != whole or not may_share):
                    return True
                owners[name, index] = whole
    return False


def _frozen(features: Features) -> frozenset[tuple[str, frozenset[int]]]:
    return frozenset(features.items())
