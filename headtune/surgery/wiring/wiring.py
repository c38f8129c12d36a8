"""Which features of the projections around an attention block belong to which head: a frozen value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import headtune.surgery.wiring.reasons as reasons

Features = Mapping[str, frozenset[int]]
"""Name of a weight → indices among the features that it puts out, or, of an output projection, reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The wires of one attention block, by query head.

    Attributes:
        q: for each head, the features of the projections that make its queries.
        k: the same for its keys; heads that share a key head have equal ones.
        v: the same for its values.
        out: for each head, the features of the projections that read its output.
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
        return len(set(self.kv_heads))

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """For each query head, the number of its key head, in the order in which query heads meet them."""
        order = list(dict.fromkeys(map(_frozen, self.k)))
        return tuple(order.index(_frozen(features)) for features in self.k)

    def of_heads(self, heads: Sequence[int]) -> dict[str, frozenset[int]]:
        """Every feature of a projection that one of the *heads* is made of, by weight."""
        return _union([side[head] for side in (self.q, self.k, self.v) for head in heads])

    def read_from(self, heads: Sequence[int]) -> dict[str, frozenset[int]]:
        """Every feature of an output projection that reads one of the *heads*."""
        return _union([self.out[head] for head in heads])

    def holds(self, other: "Wiring") -> bool:
        """Whether every head here has every feature that it has there."""
        sides = ((self.q, other.q), (self.k, other.k), (self.v, other.v), (self.out, other.out))
        return self.num_heads == other.num_heads and all(
            indices <= mine.get(name, frozenset())
            for ours, theirs in sides
            for mine, features in zip(ours, theirs, strict=True)
            for name, indices in features.items()
        )

    def why_mixed(self) -> str | None:
        """Why no head can be taken by itself, as a sentence; ``None`` when each feature has its heads."""
        for words, side in (("queries", self.q), ("keys", self.k), ("values", self.v)):
            if not all(side):
                return reasons.no_projection(words)
            if any("" in features for features in side):
                return f"its {words} come from {reasons.COMPUTED}"
            if shared := _shared(side, whole_heads_may_be=side is not self.q):
                return reasons.mixed(words, shared)
        if any("" in features for features in self.out):
            return f"its output is read by {reasons.COMPUTED}"
        return None


def _union(parts: Sequence[Features]) -> dict[str, frozenset[int]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: frozenset().union(*(part.get(name, frozenset()) for part in parts)) for name in names}


def _shared(side: Sequence[Features], *, whole_heads_may_be: bool) -> str | None:
    """The name of a weight of which two heads share a feature, where they do not, as they may, share all."""
    owners: dict[tuple[str, int], frozenset[tuple[str, frozenset[int]]]] = {}
    for features in side:
        whole = _frozen(features)
        for name, indices in features.items():
            for index in indices:
                known = owners.setdefault((name, index), whole)
                if known != whole or (known is not whole and not whole_heads_may_be):
                    return name
    return None


def _frozen(features: Features) -> frozenset[tuple[str, frozenset[int]]]:
    return frozenset(features.items())
