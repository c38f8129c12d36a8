"""A plan as numbers: what changes at each site against the present plan.

Rows are plans, columns are features: R rows, P columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2

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

_SHARED_PRIOR, _STEP_PRIOR, _OWN_PRIOR = 1.0, 0.2, 0.3
"""How large effects are expected to be beside each other: sites of a kind differ less among them than from none, and
single counts lie off the curve by less than the curve spans."""

Kind = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One column: a quantity of the counts, summed over some sites.

    Attributes:
        name: for messages.
        paths: the sites it is summed over.
        of: the quantity.
        scale: what the sum is divided by, so that columns are comparable; the prior is in it.
    """

    name: str
    paths: tuple[str, ...]
    of: Callable[[HeadCount], float]
    scale: float = 1.0

    def at(self, plan: HeadPlan, present: HeadPlan) -> float:
        """Its value for a plan, against the present one."""
        ours, theirs = dict(plan.counts), dict(present.counts)
        return sum(self.of(ours[path]) - self.of(theirs[path]) for path in self.paths) / self.scale


def kind_of(site: AttentionSite) -> Kind:
    """Sites of one kind are expected to cost alike: the same stack and role, and the same sizes."""
    return (*site.stack, site.embed_dim, site.present)


def features_of(sites: Sequence[AttentionSite], plans: Sequence[HeadPlan]) -> tuple[Feature, ...]:
    """The columns that differ among *plans*, each scaled by the largest step that one of its sites takes in them."""
    present = HeadPlan.present(sites)
    kinds: dict[Kind, list[str]] = {}
    for site in sites:
        kinds.setdefault(kind_of(site), []).append(site.path)
    found = []
    for paths in map(tuple, kinds.values()):
        name = paths[0]
        found += [(Feature(name=f"{key} {name}", paths=paths, of=of), _SHARED_PRIOR) for key, of in _QUANTITIES.items()]
        seen = sorted({plan[path] for plan in plans for path in paths})
        found += [(Feature(name=f"{at} {name}", paths=paths, of=_is(at)), _STEP_PRIOR) for at in seen]
        if len(paths) > 1:
            own = [(path, key) for path in paths for key in _OWN]
            found += [
                (Feature(name=f"{key} {path}", paths=(path,), of=_QUANTITIES[key]), _OWN_PRIOR) for path, key in own
            ]
    scaled = ((feature, prior, _largest_step(feature, plans, present)) for feature, prior in found)
    return tuple(
        Feature(name=feature.name, paths=feature.paths, of=feature.of, scale=step / prior)
        for feature, prior, step in scaled
        if step > 0
    )


def matrix_of(features: Sequence[Feature], plans: Sequence[HeadPlan], present: HeadPlan) -> Array:
    """``(R, P)``: each plan's features."""
    return np.array([[feature.at(plan, present) for feature in features] for plan in plans]).reshape(len(plans), -1)


def _is(count: HeadCount) -> Callable[[HeadCount], float]:
    return lambda other: float(other == count)


def _largest_step(feature: Feature, plans: Sequence[HeadPlan], present: HeadPlan) -> float:
    counts = {path: dict(present.counts)[path] for path in feature.paths}
    return max(
        (abs(feature.of(plan[path]) - feature.of(count)) for plan in plans for path, count in counts.items()), default=0
    )
