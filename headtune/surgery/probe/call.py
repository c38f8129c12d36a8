"""What the probe saw of one attention computation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A module that was running.

    Attributes:
        path: its name in ``model.named_modules()``.
        width: last dimension of the first sequence that it was given; None where it was given none.
        sequences: how many different floating-point tensors of two or more dimensions it was given.
    """

    path: str
    width: int | None
    sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Projections:
    """Names of the parameters that made the queries, keys and values, and of those that read the output.

    A sum of several projections has several names; ``""`` stands for a weight that is no parameter of the model (it is
    computed in the forward pass); no name at all means that no projection was seen.
    """

    q: frozenset[str] = frozenset()
    k: frozenset[str] = frozenset()
    v: frozenset[str] = frozenset()
    out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """One softmax over query-key scores that weights values.

    Attributes:
        frames: the modules running, outermost first.
        num_heads: query heads.
        num_kv_heads: key heads that differ; ``num_heads`` where that cannot be told.
        head_dim: features over which a score is summed.
        scale: what multiplies the scores between the projections and the softmax.
        rotated: features of the table that rotates each head's queries by position; 0 where nothing does.
        two_inputs: queries and keys were projected from different tensors.
        causal: no query attended to a later key.
        projections: the weights involved.
    """

    frames: tuple[Frame, ...]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    rotated: int = 0
    two_inputs: bool
    causal: bool
    projections: Projections
