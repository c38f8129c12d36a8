"""What can be said about head counts from the width alone, before any model is seen."""

from dataclasses import dataclass

import headtune.rules as rules
from headtune.errors import InputError
from headtune.heads.heuristic import mixed_rule, rule_heads, rule_of_thumb
from headtune.heads.legal import divisors
from headtune.heads.site import AttentionSite

ALIGNMENTS = {
    2: "even head_dims, which rotary positions need",
    8: "head_dims in eights, at which fused kernels are fastest",
}
"""What a head_dim should be a multiple of, and why."""

_USEFUL_HEADS = range(2, 17)
_MOST_PADDING = 0.25


@dataclass(frozen=True, slots=True)
class Split:
    """One legal way to split a width: ``num_heads * head_dim``."""

    num_heads: int
    head_dim: int

    def __str__(self) -> str:
        return f"{self.num_heads}x{self.head_dim}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """A slightly larger width that splits better.

    Attributes:
        d_model: the padded width.
        added: how many features wider it is.
        alignment: what the head_dims of its splits are multiples of.
        splits: its useful splits with such a head_dim.
    """

    d_model: int
    added: int
    alignment: int
    splits: tuple[Split, ...]

    def __str__(self) -> str:
        splits = ", ".join(map(str, self.splits))
        return f"{self.d_model} (+{self.added}) gives {ALIGNMENTS[self.alignment]}: {splits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The rule of thumb for a width and what is legal there, under ``hold: width``.

    Attributes:
        d_model: features of the residual stream.
        rule: what ``max(1, min(8, round(d_model / 64)))`` gives.
        uniform: the legal count nearest to the rule, for each layer.
        mixed: its mixed form, for each layer: the shallow half at half the count, the deep half at the count.
        legal: every legal split of the width, by heads.
        paddings: larger widths that would help where the width splits badly; else empty.
    """

    d_model: int
    rule: int
    uniform: tuple[int, ...]
    mixed: tuple[int, ...]
    legal: tuple[Split, ...]
    paddings: tuple[Padding, ...]

    @property
    def heads(self) -> int:
        """The legal count nearest to the rule."""
        return self.uniform[0]

    def __str__(self) -> str:
        snapped = (
            ""
            if self.heads == self.rule
            else f", which does not divide {self.d_model}; nearest legal count: {self.heads}"
        )
        lines = [
            f"rule of thumb: max(1, min(8, round({self.d_model} / 64))) = {self.rule}{snapped}",
            f"uniform: {' '.join(map(str, self.uniform))}",
            f"mixed: {' '.join(map(str, self.mixed))}",
            f"legal, heads x head_dim: {', '.join(map(str, self.legal))}",
            *(f"padding: {padding}" for padding in self.paddings),
        ]
        return "\n".join(lines)


def suggest(d_model: int, layers: int = 1) -> Suggestion:
    """The rule of thumb, its mixed form and the legal counts of a width, and the paddings that help a bad one.

    Args:
        d_model: features of the residual stream.
        layers: how many layers the stack has.

    Raises:
        InputError: a number is below 1, or no whole number.
    """
    given = {"d_model": d_model, "layers": layers}
    problems = [
        f"{name} is {number!r}; it {rules.count(number)}" for name, number in given.items() if rules.count(number)
    ]
    if problems:
        raise InputError(*problems)
    sites = [
        AttentionSite(
            path=f"layers.{layer}", role="self", embed_dim=d_model, num_heads=1, num_kv_heads=1, head_dim=d_model
        )
        for layer in range(layers)
    ]
    return Suggestion(
        d_model=d_model,
        rule=rule_heads(d_model),
        uniform=tuple(count.num_heads for _, count in rule_of_thumb(sites, "width")),
        mixed=tuple(count.num_heads for _, count in mixed_rule(sites, "width")),
        legal=splits(d_model),
        paddings=helpful_paddings(d_model),
    )


def splits(d_model: int) -> tuple[Split, ...]:
    """Every legal split of a width, by heads."""
    return tuple(Split(heads, d_model // heads) for heads in divisors(d_model))


def helpful_paddings(d_model: int) -> tuple[Padding, ...]:
    """For each alignment that no split into 2 to 16 heads has, the next width at most a quarter wider that has two."""
    paddings = []
    for alignment in ALIGNMENTS:
        if _aligned(d_model, alignment):
            continue
        for width in range(d_model + 1, int(d_model * (1 + _MOST_PADDING)) + 1):
            if len(_aligned(width, alignment)) >= 2:
                found = _aligned(width, alignment)
                paddings.append(Padding(d_model=width, added=width - d_model, alignment=alignment, splits=found))
                break
    return tuple(paddings)


def _aligned(d_model: int, alignment: int) -> tuple[Split, ...]:
    return tuple(
        split for split in splits(d_model) if split.num_heads in _USEFUL_HEADS and split.head_dim % alignment == 0
    )
