"""A plan as numbers: what changes at each site against the present plan.

Rows are plans, columns are features: R rows, P columns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headtune.heads import AttentionSite, HeadCount, HeadPlan

Array = NDArray[np.float64]

_QUANTITIES: dict[str, Callable[[HeadCount], float]] = {
    "heads": lambda count: count.num_heads,
    "width": lambda count: count.num_heads * count.head_dim,
    "kv_width": lambda count: count.num_kv_heads * count.head_dim,
    "log_heads": lambda count: log2(count.num_heads),
    "narrow": lambda count: 1 / count.head_dim,
}
"""What an attention block's time is made of: a pass over the scores for each head, products as wide as all heads,
keys and values, and what the form of a head does to kernels."""

_OWN = ("heads", "kv_width")
"""Where a site may differ from those of its kind: unlike inputs make unlike slopes."""

_BENT = ("log_heads", "narrow")
"""What bends a kind's curve; a straight one needs none of them."""


class Priors(NamedTuple):
    """How large effects are expected to be beside the straight ones of a kind.

    Attributes:
        bend: bends of its curve, and steps of single counts off it.
        deviation: differences between its sites.
    """

    bend: float
    deviation: float


PRIORS = tuple(Priors(bend, deviation) for bend in (0.02, 0.2) for deviation in (0.02, 0.2, 1.0))
"""Among these the data choose."""

Kind = tuple[object, ...]
Counts = Mapping[str, HeadCount]
"""A plan's counts by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One column: a quantity of the counts, summed over some sites.

    Attributes:
        name: for messages.
        paths: the sites it is summed over.
        of: the quantity.
        prior: how large its effect is expected to be.
        scale: what the sum is divided by, so that columns are comparable.
    """

    name: str
    paths: tuple[str, ...]
    of: Callable[[HeadCount], float]
    prior: Callable[[Priors], float]
    scale: float = 1.0

    def at(self, counts: Counts, present: Counts) -> float:
        """Its value for a plan's counts, against the present ones."""
        return sum(self.of(counts[path]) - self.of(present[path]) for path in self.paths) / self.scale


def kind_of(site: AttentionSite) -> Kind:
    """Sites of one kind are expected to cost alike: the same stack and role, and the same sizes."""
    return (*site.stack, site.embed_dim, site.present)


def features_of(sites: Sequence[AttentionSite], plans: Sequence[HeadPlan]) -> tuple[Feature, ...]:
    """The columns that differ among *plans*, each scaled by the largest step that one of its sites takes in them."""
    present, counted = dict(HeadPlan.present(sites).counts), [dict(plan.counts) for plan in plans]
    kinds: dict[Kind, list[str]] = {}
    for site in sites:
        kinds.setdefault(kind_of(site), []).append(site.path)
    found = [
        (feature, _largest_step(feature, counted, present))
        for paths in kinds.values()
        for feature in _of_kind(tuple(paths), counted)
    ]
    return tuple(replace(feature, scale=step) for feature, step in found if step > 0)


def _of_kind(paths: tuple[str, ...], counted: Sequence[Counts]) -> Iterator[Feature]:
    """The columns of the sites of one kind."""
    for key, of in _QUANTITIES.items():
        yield Feature(name=f"{key} {paths[0]}", paths=paths, of=of, prior=_bend if key in _BENT else _straight)
    for count in sorted({counts[path] for counts in counted for path in paths}):
        yield Feature(name=f"{count} {paths[0]}", paths=paths, of=_is(count), prior=_step)
    for path, key in product(paths, _OWN) if len(paths) > 1 else ():
        yield Feature(name=f"{key} {path}", paths=(path,), of=_QUANTITIES[key], prior=_deviation)


def _straight(priors: Priors) -> float:
    return 1.0


def _bend(priors: Priors) -> float:
    return priors.bend


def _step(priors: Priors) -> float:
    return priors.bend / 2


def _deviation(priors: Priors) -> float:
    return priors.deviation


def prior_of(features: Sequence[Feature], priors: Priors) -> Array:
    """``(P,)``: how large each column's effect is expected to be; columns are multiplied by it."""
    return np.array([feature.prior(priors) for feature in features])


def matrix_of(features: Sequence[Feature], plans: Sequence[HeadPlan], present: HeadPlan) -> Array:
    """``(R, P)``: each plan's features."""
    now, counted = dict(present.counts), [dict(plan.counts) for plan in plans]
    return np.array([[feature.at(counts, now) for feature in features] for counts in counted]).reshape(len(plans), -1)


def _is(count: HeadCount) -> Callable[[HeadCount], float]:
    return lambda other: float(other == count)


def _largest_step(feature: Feature, counted: Sequence[Counts], present: Counts) -> float:
    now = {path: feature.of(present[path]) for path in feature.paths}
    return max((abs(feature.of(counts[path]) - at) for counts in counted for path, at in now.items()), default=0)
