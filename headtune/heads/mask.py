"""Which heads of each site stay: a frozen value."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

import headtune.rules as rules
from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.selector import select, unmatched
from headtune.heads.site import AttentionSite

_AS_IN = "as in {'encoder.layers.0': [0, 2]}"


@dataclass(frozen=True, slots=True, order=True)
class HeadMask:
    """The indices of the query heads that stay, ascending, by site; a site that is not named keeps all.

    Sites are named as in :meth:`HeadPlan.parse`: by path, by a glob over whole paths, or by ``role=cross``; where
    several match, the last wins.
    """

    kept: tuple[tuple[str, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        """Raises PlanError for what is no tuple of paths with their heads."""
        if not isinstance(self.kept, tuple) or not all(map(_is_entry, self.kept)):
            raise PlanError(f"HeadMask: must be made by HeadMask.of({{path: [0, 2]}}){rules.came(self.kept)}")

    @classmethod
    def of(cls, kept: Mapping[str, Iterable[SupportsIndex]]) -> "HeadMask":
        """The mask that keeps the given heads, counted from 0, in the mapping's order.

        Raises:
            PlanError: it is no mapping of paths to whole numbers; or lists every site that would keep no head, a head
                twice, or a negative one.
        """
        if not isinstance(kept, Mapping):
            raise PlanError(f"a mask must be a mapping of paths to the heads that stay, {_AS_IN}{rules.came(kept)}")
        problems: list[str] = []
        heads: dict[str, tuple[int, ...]] = {}
        for path, indices in kept.items():
            read = _indices(indices)
            if not isinstance(path, str):
                problems.append(f"{path!r} is no path; name sites by text, {_AS_IN}")
            elif read is None:
                problems.append(
                    f"{path}: the heads that stay must be a list of their numbers, {_AS_IN}{rules.came(indices)}"
                )
            else:
                heads[path] = read
                problems += _index_problems(path, read)
        if problems:
            raise PlanError(*problems)
        return cls(tuple(heads.items()))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the sites that are named, in order."""
        return tuple(path for path, _ in self.kept)

    def __getitem__(self, path: str) -> tuple[int, ...]:
        return dict(self.kept)[path]

    def at(self, sites: Sequence[AttentionSite]) -> "HeadMask":
        """The same mask with every site that is named by its path, however their heads are grouped.

        Raises:
            PlanError: lists every selector that matches no site, and every head that a site lacks.
        """
        named: dict[str, tuple[int, ...]] = {}
        problems = [unmatched(selector, sites) for selector in self.paths if not select(selector, sites)]
        for selector, heads in self.kept:
            named |= dict.fromkeys((site.path for site in select(selector, sites)), heads)
        for site in sites:
            problems += _lacking(site, named.get(site.path, ()))
        if problems:
            raise PlanError(*problems)
        return HeadMask(tuple((site.path, named[site.path]) for site in sites if site.path in named))

    def heads(self, site: AttentionSite) -> tuple[int, ...]:
        """The heads of *site* that stay: all where it is not named."""
        named = [heads for selector, heads in self.kept if select(selector, (site,))]
        return named[-1] if named else tuple(range(site.num_heads))

    def plan(self, sites: Sequence[AttentionSite]) -> HeadPlan:
        """The counts that remain at every site.

        Where query heads share key/value heads, a key/value head goes with the last of its query heads; those that stay
        must keep equally many.

        Raises:
            PlanError: lists every selector that matches no site and every head that a site lacks; or every uneven
                grouping.
        """
        mask = self.at(sites)
        kept = {site.path: mask.heads(site) for site in sites}
        problems = [problem for site in sites for problem in _uneven(site, kept[site.path])]
        if problems:
            raise PlanError(*problems)
        return HeadPlan.of({site.path: _count(site, kept[site.path]) for site in sites})

    def __str__(self) -> str:
        return " ".join(f"{path}=[{','.join(map(str, heads))}]" for path, heads in self.kept)

    def to_json(self) -> dict[str, list[int]]:
        """A JSON-ready mapping of path to the heads that stay."""
        return {path: list(heads) for path, heads in self.kept}

    @classmethod
    def from_json(cls, data: Mapping[str, Sequence[int]]) -> "HeadMask":
        """The inverse of :meth:`to_json`; checks like :meth:`of`."""
        return cls.of(data)


def _indices(heads: object) -> tuple[int, ...] | None:
    """Whole numbers as Python's own, ascending; None for anything else, among it one truth value for each head."""
    if isinstance(heads, str | bytes | Mapping) or not isinstance(heads, Iterable):
        return None
    try:
        given = list(heads)
        truths = any(isinstance(head, bool) or "bool" in str(getattr(head, "dtype", "")) for head in given)
        return None if truths else tuple(sorted(map(index, given)))
    except TypeError:  # 0.5, or an array without dimensions
        return None


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, tuple) or len(entry) != 2:
        return False
    path, heads = entry
    return isinstance(path, str) and isinstance(heads, tuple) and all(type(head) is int for head in heads)


def _index_problems(path: str, heads: tuple[int, ...]) -> list[str]:
    problems = [] if heads else [f"{path}: no head stays; at least one must"]
    problems += [f"{path}: {head} is no head; heads are counted from 0" for head in heads if head < 0]
    problems += [f"{path}: head {head} is named {times} times" for head, times in Counter(heads).items() if times > 1]
    return problems


def _uneven(site: AttentionSite, heads: tuple[int, ...]) -> list[str]:
    sizes = _group_sizes(site, heads)
    if len(set(sizes.values())) == 1:
        return []
    groups = ", ".join(f"key/value head {group} keeps {size}" for group, size in sizes.items())
    return [f"{site.path}: {groups}; keep equally many of each {site.group_size}, or none"]


def _lacking(site: AttentionSite, heads: tuple[int, ...]) -> list[str]:
    missing = [head for head in heads if head >= site.num_heads]
    return [f"{site.path}: there is no head {head}; heads go from 0 to {site.num_heads - 1}" for head in missing]


def _group_sizes(site: AttentionSite, heads: tuple[int, ...]) -> Counter[int]:
    """How many query heads stay for each key/value head that stays."""
    return Counter(head // site.group_size for head in heads)


def _count(site: AttentionSite, heads: tuple[int, ...]) -> HeadCount:
    return HeadCount(len(heads), len(_group_sizes(site, heads)), site.head_dim)
