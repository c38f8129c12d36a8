"""Sites that are decided together: one count for all, or a line from the first layer to the last."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headtune.heads.choice import HeadChoice
from headtune.heads.count import HeadCount
from headtune.heads.setting import Stages, Tie
from headtune.heads.site import AttentionSite, Hold

Counts = dict[str, HeadCount]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One decision of a search space.

    Attributes:
        name: unique in its space: a site's path, ``all``, ``<stack>.stage<n>``, ``<stack>.first`` or ``<stack>.last``.
        choices: ascending, first by heads, then by kv_heads, then by head_dim.
        paths: the sites that depend on it.
    """

    name: str
    choices: tuple[HeadChoice, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal:
    """Sites that share one choice."""

    name: str
    sites: tuple[AttentionSite, ...]
    choices: tuple[HeadChoice, ...]
    hold: Hold
    _found: dict[tuple[HeadCount, ...], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[tuple[HeadCount, ...], int] = {}
        for at in range(len(self.choices)):
            found.setdefault(tuple(self.counts((at,)).values()), at)
        object.__setattr__(self, "_found", found)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The one decision."""
        return (Dimension(name=self.name, choices=self.choices, paths=tuple(site.path for site in self.sites)),)

    def counts(self, index: Sequence[int]) -> Counts:
        """The counts of each site under the choice with the given index."""
        return {site.path: self.choices[index[0]].at(site, self.hold) for site in self.sites}

    def index(self, counts: Counts) -> tuple[int, ...] | None:
        """The inverse of :meth:`counts`, given those of every site; ``None`` where no choice gives them."""
        at = self._found.get(tuple(counts[site.path] for site in self.sites))
        return None if at is None else (at,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """A stack of two or more sites whose counts lie on a line from first to last (layer-wise scaling, OpenELM 2024).

    Between the ends a site takes the choice nearest to the line: first by heads, then by kv_heads, then by head_dim;
    of two equally near ones the smaller.
    """

    name: str
    sites: tuple[AttentionSite, ...]
    choices: tuple[HeadChoice, ...]
    hold: Hold

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The choices of the first and of the last site."""
        paths = tuple(site.path for site in self.sites)
        return tuple(
            Dimension(name=f"{self.name}.{end}", choices=self.choices, paths=paths) for end in ("first", "last")
        )

    def counts(self, index: Sequence[int]) -> Counts:
        """The counts of each site on the line between the two choices."""
        first, last = (self.choices[at] for at in index)
        return {
            site.path: self._nearest_to_line(first, last, depth).at(site, self.hold)
            for depth, site in enumerate(self.sites)
        }

    def index(self, counts: Counts) -> tuple[int, ...] | None:
        """The inverse of :meth:`counts`, given those of every site; ``None`` where they are on no line."""
        ends = [self._end_index(site, counts[site.path]) for site in (self.sites[0], self.sites[-1])]
        found = tuple(at for at in ends if at is not None)
        if len(found) < 2 or self.counts(found) != {site.path: counts[site.path] for site in self.sites}:
            return None
        return found

    def _end_index(self, site: AttentionSite, count: HeadCount) -> int | None:
        return next((at for at, choice in enumerate(self.choices) if choice.at(site, self.hold) == count), None)

    def _nearest_to_line(self, first: HeadChoice, last: HeadChoice, depth: int) -> HeadChoice:
        # Everything is multiplied by the number of steps, so that the comparison stays in whole numbers.
        steps = len(self.sites) - 1
        line = [a * (steps - depth) + b * depth for a, b in zip(_numbers(first), _numbers(last), strict=True)]
        return min(
            self.choices,
            key=lambda choice: [abs(n * steps - at) for n, at in zip(_numbers(choice), line, strict=True)],
        )


def tied(sites: Sequence[AttentionSite], tie: Tie) -> dict[str, tuple[AttentionSite, ...]]:
    """The sites that are decided together, in the model's order, by the name of their group."""
    if isinstance(tie, Stages):
        return {
            f"{name}.stage{number}": stage
            for name, stack in stack_sites(sites).items()
            for number, stage in enumerate(_cut(stack, tie.count), start=1)
        }
    if tie == "ramp":
        return stack_sites(sites)
    return {"all": tuple(sites)} if tie == "uniform" else {_name(site.path): (site,) for site in sites}


def stack_sites(sites: Sequence[AttentionSite]) -> dict[str, tuple[AttentionSite, ...]]:
    """The sites of each stack by name: the path with layer numbers as ``*``, and the role where two paths are equal."""
    stacks = dict.fromkeys(site.stack for site in sites)
    uses = Counter(path for path, _ in stacks)
    return {
        _name(path) if uses[path] == 1 else f"{_name(path)} ({role})": tuple(
            site for site in sites if site.stack == (path, role)
        )
        for path, role in stacks
    }


def _name(path: str) -> str:
    return path or "(model)"


def _numbers(choice: HeadChoice) -> tuple[int, int, int]:
    return choice.num_heads, choice.num_kv_heads or 0, choice.head_dim or 0


def _cut(stack: tuple[AttentionSite, ...], count: int) -> list[tuple[AttentionSite, ...]]:
    """Cut into at most *count* contiguous groups whose sizes differ by at most one, the larger ones first."""
    groups = min(count, len(stack))
    size, larger = divmod(len(stack), groups)
    starts = [number * size + min(number, larger) for number in range(groups + 1)]
    return [stack[start:end] for start, end in pairwise(starts)]
