"""Which trained heads stay under a plan: the most important ones, the same whenever it is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.plan import HeadPlan
from headtune.heads.pruned import pruned_count, pruning_problem
from headtune.heads.site import AttentionSite

Criterion = Literal["gradient", "norm"]
"""What heads are scored by: the gradient of their gates, or the norm of their weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRanking:
    """The score of every head, by path; what a plan keeps follows from it alone.

    Key/value heads are ranked by the sum of the scores of their query heads, query heads within each. So the heads that
    stay are nested: a plan that keeps fewer keeps none that a plan with more leaves out, as long as neither of its
    two counts is the larger one.

    Attributes:
        scores: path → one score per query head; of equal ones the first head comes first.
        criterion: what they are.
    """

    scores: Mapping[str, tuple[float, ...]]
    criterion: Criterion

    def mask(self, plan: HeadPlan, sites: Sequence[AttentionSite]) -> HeadMask:
        """The heads that stay at every site.

        Args:
            plan: counts for every site; where it merges key/value heads, those stay that are merged afterwards.
            sites: the trained model's.

        Raises:
            PlanError: lists every count that trained heads cannot have, and every site without scores.
        """
        plan.check(sites, hold="head_dim")
        problems = [problem for site in sites if (problem := pruning_problem(site, plan[site.path])) is not None]
        problems += [
            f"{site.path or 'the model'}: {len(self.scores.get(site.path, ()))} scores for {site.num_heads} heads"
            for site in sites
            if len(self.scores.get(site.path, ())) != site.num_heads
        ]
        if problems:
            raise PlanError(*problems)
        return HeadMask.of({site.path: self._kept(site, plan[site.path]) for site in sites})

    def pruned(self, plan: HeadPlan, sites: Sequence[AttentionSite]) -> HeadPlan:
        """The counts that the heads of :meth:`mask` have before key/value heads are merged."""
        return self.mask(plan, sites).plan(sites)

    def _kept(self, site: AttentionSite, wanted: HeadCount) -> list[int]:
        count = pruned_count(site, wanted)
        assert count is not None  # mask() has asked
        scores, size = self.scores[site.path], site.group_size
        groups = [range(first, first + size) for first in range(0, site.num_heads, size)]
        best = _first([sum(scores[head] for head in group) for group in groups], count.num_kv_heads)
        each = count.num_heads // count.num_kv_heads
        return [
            groups[group][within] for group in best for within in _first([scores[head] for head in groups[group]], each)
        ]

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {"criterion": self.criterion, "scores": {path: list(row) for path, row in self.scores.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "HeadRanking":
        """The inverse of :meth:`to_json`."""
        scores = {path: tuple(row) for path, row in data["scores"].items()}
        return cls(scores=scores, criterion=data["criterion"])


def _first(scores: Sequence[float], count: int) -> list[int]:
    """The places of the *count* highest scores, ascending; of equal ones the first."""
    return sorted(sorted(range(len(scores)), key=lambda place: -scores[place])[:count])
