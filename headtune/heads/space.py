"""The legal plans under a hold: counted without listing them, listed lazily, sampled uniformly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random

from headtune.errors import SpaceError
from headtune.heads.candidates import Candidates
from headtune.heads.dead import dead_numbers
from headtune.heads.options import SpaceOptions
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.heads.tie import Counts, Dimension, Equal, Ramp, tied


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Every plan that the options allow; a plan is named by its index, one whole number for each dimension.

    Choices ascend, so that an index is ordinal: a larger number means more heads.

    Attributes:
        sites: the model's sites, in order.
        options: what the person said.
        groups: the sites that are decided together.
    """

    sites: tuple[AttentionSite, ...]
    options: SpaceOptions
    groups: tuple[Equal | Ramp, ...]

    @classmethod
    def of(cls, sites: Sequence[AttentionSite], options: SpaceOptions, *, trained: bool = False) -> "SearchSpace":
        """The space of the given sites under the given options.

        Args:
            sites: the model's.
            options: what the person said.
            trained: whether the heads are trained and kept, so that only pruning and merging change their counts.

        Raises:
            SpaceError: lists every override that matches no site, every listed number that is legal nowhere, and the
                sites that are left without a choice, with the rules that left them so.
        """
        if not sites:
            raise SpaceError("the model has no attention site, so there is nothing to search")
        settings = options.settings(sites)
        found = {
            name: Candidates.of(members, settings, options, trained=trained)
            for name, members in tied(sites, options.tie).items()
        }
        dead, explained = dead_numbers(sites, settings, options, trained=trained)
        empty = [group for group in found.values() if not group.choices and explained.isdisjoint(group.sites)]
        problems = [*options.selector_problems(sites), *dead, *_empty_problems(empty)]
        if problems:
            raise SpaceError(*problems)
        groups = tuple(_group(name, candidates, options) for name, candidates in found.items())
        return cls(sites=tuple(sites), options=options, groups=groups)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The decisions of the space, in the model's order."""
        return tuple(dimension for group in self.groups for dimension in group.dimensions)

    @property
    def size(self) -> int:
        """How many plans there are."""
        return prod(len(dimension.choices) for dimension in self.dimensions)

    @property
    def smallest(self) -> HeadPlan:
        """The plan with the first choice everywhere."""
        return self.plan((0,) * len(self.dimensions))

    @property
    def largest(self) -> HeadPlan:
        """The plan with the last choice everywhere."""
        return self.plan(tuple(len(dimension.choices) - 1 for dimension in self.dimensions))

    def plan(self, index: Sequence[int]) -> HeadPlan:
        """The plan with the given index.

        Raises:
            SpaceError: the index has another length than the space has dimensions, or lies outside of their choices.
        """
        dimensions = self.dimensions
        if len(index) != len(dimensions):
            raise SpaceError(f"an index of {len(index)} numbers; the space has {len(dimensions)} dimensions")
        outside = [
            f"{dimension.name}: there is no choice {at}; choices go from 0 to {len(dimension.choices) - 1}"
            for dimension, at in zip(dimensions, index, strict=True)
            if not 0 <= at < len(dimension.choices)
        ]
        if outside:
            raise SpaceError(*outside)
        remaining = iter(index)
        counts: Counts = {}
        for group in self.groups:
            counts |= group.counts([next(remaining) for _ in group.dimensions])
        return HeadPlan.of({site.path: counts[site.path] for site in self.sites})

    def index(self, plan: HeadPlan) -> tuple[int, ...] | None:
        """The index of *plan*, or ``None`` where the space does not hold it."""
        if plan.paths != tuple(site.path for site in self.sites):
            return None
        counts = dict(plan.counts)
        parts = [group.index(counts) for group in self.groups]
        found = [part for part in parts if part is not None]
        return tuple(at for part in found for at in part) if len(found) == len(parts) else None

    def sample(self, rng: Random) -> HeadPlan:
        """One plan, every plan being equally likely."""
        return self.plan(tuple(rng.randrange(len(dimension.choices)) for dimension in self.dimensions))

    def __contains__(self, plan: HeadPlan) -> bool:
        return self.index(plan) is not None

    def __iter__(self) -> Iterator[HeadPlan]:
        """Every plan once, in the order of their indices."""
        return map(self.plan, product(*(range(len(dimension.choices)) for dimension in self.dimensions)))


def _group(name: str, candidates: Candidates, options: SpaceOptions) -> Equal | Ramp:
    kind = Ramp if options.tie == "ramp" and len(candidates.sites) > 1 else Equal
    return kind(name=name, sites=candidates.sites, choices=candidates.choices, hold=options.hold)


def _empty_problems(empty: Sequence[Candidates]) -> list[str]:
    """One problem for all groups that are empty for the same reasons."""
    paths: dict[str, list[str]] = {}
    for group in empty:
        paths.setdefault(group.why_empty(), []).extend(site.path for site in group.sites)
    return [f"{_few(named)}: {reason}" for reason, named in paths.items()]


def _few(paths: Sequence[str]) -> str:
    return ", ".join(paths) if len(paths) <= 4 else f"{', '.join(paths[:3])} and {len(paths) - 3} more"
