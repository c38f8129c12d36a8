"""Which heads of each site stay: a frozen value."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index

from headtune.errors import PlanError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.selector import unmatched
from headtune.heads.site import AttentionSite


@dataclass(frozen=True, slots=True, order=True)
class HeadMask:
    """The indices of the query heads that stay, ascending, for each path; a site that is not named keeps all."""

    kept: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, kept: Mapping[str, Iterable[int]]) -> "HeadMask":
        """The mask that keeps the given heads, counted from 0, in the mapping's order of paths.

        Raises:
            PlanError: lists every site that would keep no head, a head twice, or a negative one.
        """
        heads = {path: tuple(sorted(map(index, indices))) for path, indices in kept.items()}
        problems = [problem for path, indices in heads.items() for problem in _index_problems(path, indices)]
        if problems:
            raise PlanError(*problems)
        return cls(tuple(heads.items()))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the sites that are named, in order."""
        return tuple(path for path, _ in self.kept)

    def __getitem__(self, path: str) -> tuple[int, ...]:
        return dict(self.kept)[path]

    def check(self, sites: Sequence[AttentionSite]) -> None:
        """Make sure that the mask fits the sites, however their heads are grouped.

        Raises:
            PlanError: lists every path that is no site, and every head that a site lacks.
        """
        by_path = {site.path: site for site in sites}
        problems = [unmatched(path, sites) for path in self.paths if path not in by_path]
        for path, heads in self.kept:
            problems += _lacking(by_path[path], heads) if path in by_path else []
        if problems:
            raise PlanError(*problems)

    def heads(self, site: AttentionSite) -> tuple[int, ...]:
        """The heads of *site* that stay: all where it is not named."""
        return dict(self.kept).get(site.path, tuple(range(site.num_heads)))

    def plan(self, sites: Sequence[AttentionSite]) -> HeadPlan:
        """The counts that remain at every site.

        Where query heads share key/value heads, a key/value head goes with the last of its query heads; those that stay
        must keep equally many.

        Raises:
            PlanError: lists every path that is no site, every head that a site lacks, and every uneven grouping.
        """
        kept = dict(self.kept)
        by_path = {site.path: site for site in sites}
        problems = [unmatched(path, sites) for path in kept if path not in by_path]
        for path in self.paths:
            problems += _site_problems(by_path[path], kept[path]) if path in by_path else []
        if problems:
            raise PlanError(*problems)
        return HeadPlan.of({site.path: _count(site, self.heads(site)) for site in sites})

    def __str__(self) -> str:
        return " ".join(f"{path}=[{','.join(map(str, heads))}]" for path, heads in self.kept)

    def to_json(self) -> dict[str, list[int]]:
        """A JSON-ready mapping of path to the heads that stay."""
        return {path: list(heads) for path, heads in self.kept}

    @classmethod
    def from_json(cls, data: Mapping[str, Sequence[int]]) -> "HeadMask":
        """The inverse of :meth:`to_json`; checks like :meth:`of`."""
        return cls.of(data)


def _index_problems(path: str, heads: tuple[int, ...]) -> list[str]:
    problems = [] if heads else [f"{path}: no head stays; at least one must"]
    problems += [f"{path}: {head} is no head; heads are counted from 0" for head in heads if head < 0]
    problems += [f"{path}: head {head} is named {times} times" for head, times in Counter(heads).items() if times > 1]
    return problems


def _site_problems(site: AttentionSite, heads: tuple[int, ...]) -> list[str]:
    if lacking := _lacking(site, heads):
        return lacking
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
