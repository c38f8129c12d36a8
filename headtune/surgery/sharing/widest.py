"""The counts whose weights hold those of every other count of a space."""

from collections.abc import Sequence
from dataclasses import dataclass

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold
from headtune.heads.space import SearchSpace
from headtune.heads.tie import Ramp

Counts = tuple[HeadCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Sites whose counts change together, in every way that the space has.

    Attributes:
        paths: of the sites.
        options: the counts of these sites, in their order.
    """

    paths: tuple[str, ...]
    options: tuple[Counts, ...]


def units(space: SearchSpace) -> tuple[Unit, ...]:
    """The decisions of a space; the sites of a ramp, of which most lie between its ends, are taken one by one."""
    found = []
    for group in space.groups:
        if isinstance(group, Ramp):
            for site in group.sites:
                every = dict.fromkeys((choice.at(site, group.hold),) for choice in group.choices)
                found.append(Unit(paths=(site.path,), options=tuple(every)))
        else:
            paths = tuple(site.path for site in group.sites)
            counts = [group.counts((at,)) for at in range(len(group.choices))]
            found.append(Unit(paths=paths, options=tuple(tuple(one[path] for path in paths) for one in counts)))
    return tuple(found)


def widest(space: SearchSpace) -> HeadPlan:
    """At each site, counts whose projections are as wide as any choice's: under ``hold: width`` one of the choices, or
    the present one, with the most features of keys; else the most heads, key/value heads and features at once.
    """
    present = {site.path: site.present for site in space.sites}
    return HeadPlan.of(
        {
            path: _widest([option[at] for option in unit.options], present[path], space.options.hold)
            for unit in units(space)
            for at, path in enumerate(unit.paths)
        }
    )


def wants_other_sizes(space: SearchSpace, site: AttentionSite, whole: HeadCount) -> bool:
    """Whether a choice at *site* has projections of other sizes than *whole*."""
    unit = next(unit for unit in units(space) if site.path in unit.paths)
    at = unit.paths.index(site.path)
    return any(_sizes(option[at]) != _sizes(whole) for option in unit.options)


def _widest(options: Sequence[HeadCount], present: HeadCount, hold: Hold) -> HeadCount:
    if hold == "width":
        return max([present, *options], key=_sizes)
    return HeadCount(*(max(numbers) for numbers in zip(*options, strict=True)))


def _sizes(count: HeadCount) -> tuple[int, int]:
    return count.num_heads * count.head_dim, count.num_kv_heads * count.head_dim
