"""How many heads each site has: a frozen value that hashes, compares, sorts, prints and goes to JSON and back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import headtune.heads.legal as legal
import headtune.rules as rules
from headtune.errors import PlanError
from headtune.heads.choice import HeadChoice
from headtune.heads.count import HeadCount
from headtune.heads.selector import select, unmatched
from headtune.heads.site import AttentionSite, Hold, the_sites

__all__ = ["HeadCount", "HeadPlan"]


@dataclass(frozen=True, slots=True, order=True)
class HeadPlan:
    """Counts for every site of a model, in the model's order; complete by itself, whatever hold made it."""

    counts: tuple[tuple[str, HeadCount], ...]

    def __post_init__(self) -> None:
        """Raises PlanError for what is no tuple of paths with their counts."""
        if not isinstance(self.counts, tuple) or not all(map(_is_entry, self.counts)):
            raise PlanError(f"HeadPlan: must be made by HeadPlan.of({{path: HeadCount(...)}}){rules.came(self.counts)}")

    @classmethod
    def of(cls, counts: Mapping[str, HeadCount]) -> "HeadPlan":
        """The plan with the given counts, in the mapping's order.

        Raises:
            PlanError: it is no mapping of paths to three whole numbers of at least 1.
        """
        return cls.from_json(counts)

    @classmethod
    def present(cls, sites: Iterable[AttentionSite]) -> "HeadPlan":
        """The counts that the sites have today.

        Raises:
            PlanError: they are none.
        """
        given = list(sites) if isinstance(sites, Iterable) else sites
        if problems := rules.broken({"sites": (given, the_sites)}):
            raise PlanError(*problems)
        return cls.of({site.path: site.present for site in given})

    @classmethod
    def parse(cls, text: str, sites: Sequence[AttentionSite], *, hold: Hold, maximum: int | None = None) -> "HeadPlan":
        """The plan that *text* describes, the inverse of ``str``.

        *text* holds ``selector=heads[/kv_heads][xhead_dim]``, separated by spaces. A selector is a path, a glob over
        whole paths (``*`` crosses dots) or ``role=cross``; where several match, the last wins. Sites that none of them
        names keep their present counts. Without kv_heads the present group size stays; head_dim follows from the hold.

        Args:
            text: for example ``encoder.*=4 decoder.*=8/2x32 role=cross=4``.
            sites: the model's sites.
            hold: which counts are legal.
            maximum: under ``hold: head_dim``, how many heads a site may have when that is more than at present.

        Raises:
            PlanError: lists every selector that matches nothing and every count that is not legal; or that *text* says
                nothing.
        """
        unusable = _unusable(sites, hold, maximum)
        if not isinstance(text, str) or not text.strip():
            unusable.append(f"{text!r} is no plan; write selector=heads[/kv_heads][xhead_dim], as in encoder.*=8")
        if unusable:
            raise PlanError(*unusable)
        choices, problems = _read(text, sites)
        for site in sites:
            if site.path in choices:
                problems += legal.problems(choices[site.path], site, hold, maximum=maximum)
        if problems:
            raise PlanError(*problems)
        written = {site.path: choices[site.path].at(site, hold) for site in sites if site.path in choices}
        return cls.of({site.path: written.get(site.path, site.present) for site in sites})

    def check(self, sites: Sequence[AttentionSite], *, hold: Hold, maximum: int | None = None) -> None:
        """Make sure that the plan has exactly the given sites, each with counts that are legal under *hold*.

        Raises:
            PlanError: lists every site that is missing or unknown and every count that is not legal.
        """
        if unusable := _unusable(sites, hold, maximum):
            raise PlanError(*unusable)
        counts = dict(self.counts)
        unknown = counts.keys() - {site.path for site in sites}
        problems = [unmatched(path, sites) for path in self.paths if path in unknown]
        problems += [f"{site.path}: the plan has no counts for this site" for site in sites if site.path not in counts]
        for site in sites:
            if site.path in counts:
                problems += legal.problems(HeadChoice(*counts[site.path]), site, hold, maximum=maximum)
        if problems:
            raise PlanError(*problems)

    @property
    def paths(self) -> tuple[str, ...]:
        """The sites' paths, in order."""
        return tuple(path for path, _ in self.counts)

    def __getitem__(self, path: str) -> HeadCount:
        return dict(self.counts)[path]

    def __iter__(self) -> Iterator[tuple[str, HeadCount]]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def label(self) -> str:
        """The counts alone, short enough for a table: ``8-8-4``, with ``/kv`` where heads are grouped."""
        return "-".join(str(count).partition("x")[0] for _, count in self.counts)

    def __str__(self) -> str:
        # Key/value heads are always written: left out they mean the present group size, which a plan does not know.
        return " ".join(f"{path}={HeadChoice(*count)}" for path, count in self.counts)

    def __repr__(self) -> str:
        return f"HeadPlan('{'-'.join(str(count) for _, count in self.counts)}')"

    def to_json(self) -> dict[str, list[int]]:
        """A JSON-ready mapping of path to ``[num_heads, num_kv_heads, head_dim]``."""
        return {path: list(count) for path, count in self.counts}

    @classmethod
    def from_json(cls, data: Mapping[str, Sequence[int]]) -> "HeadPlan":
        """The inverse of :meth:`to_json`.

        Raises:
            PlanError: lists every entry that is not three whole numbers of at least 1.
        """
        if not isinstance(data, Mapping):
            raise PlanError(f"a plan must be a mapping of paths to counts{rules.came(data)}")
        problems = [
            f"{path}: {counts!r} is not [num_heads, num_kv_heads, head_dim] in whole numbers of at least 1"
            for path, counts in data.items()
            if not isinstance(path, str) or not _is_count(counts)
        ]
        if problems:
            raise PlanError(*problems)
        return cls(tuple((path, HeadCount(*counts)) for path, counts in data.items()))


def _unusable(sites: object, hold: object, maximum: object) -> list[str]:
    return rules.broken(
        {
            "hold": (hold, rules.one_of(get_args(Hold))),
            "maximum": (maximum, rules.optional(rules.count)),
            "sites": (sites, the_sites),
        }
    )


def _read(text: str, sites: Sequence[AttentionSite]) -> tuple[dict[str, HeadChoice], list[str]]:
    """The last choice written for each path, and what could not be read."""
    choices: dict[str, HeadChoice] = {}
    problems: list[str] = []
    for word in text.split():
        selector, equals, count = word.rpartition("=")
        if not equals:
            problems.append(f"'{word}' has no '='; write selector=heads[/kv_heads][xhead_dim], as in encoder.*=8")
            continue
        matched = select(selector, sites)
        if "," in count or (not matched and "," in selector and "=" in selector):
            parts = " ".join(filter(None, word.split(",")))
            problems.append(f"'{word}' has a comma; separate selectors by spaces: '{parts}'")
            continue
        if not matched:
            problems.append(unmatched(selector, sites))
        try:
            choices |= dict.fromkeys((site.path for site in matched), HeadChoice.parse(count))
        except PlanError as error:
            problems += [f"'{word}': {problem}" for problem in error.problems]
    return choices, problems


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, tuple) or len(entry) != 2:
        return False
    path, count = entry
    return isinstance(path, str) and isinstance(count, HeadCount)


def _is_count(counts: object) -> bool:
    if not isinstance(counts, list | tuple) or len(counts) != 3:
        return False
    return all(type(number) is int and number >= 1 for number in counts)
