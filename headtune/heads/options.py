"""What a person says about the space to search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import headtune.rules as rules
from headtune.errors import SpaceError
from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.selector import select, unmatched
from headtune.heads.setting import HeadDims, HeadRange, Heads, KvHeads, Settings, Stages, Tie, setting_problems, words
from headtune.heads.site import AttentionSite, Hold

_WORDS = {"heads": ("auto",), "kv_heads": ("same", "auto"), "head_dims": ("same",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """What differs at some sites; what is ``None`` stays as it is elsewhere."""

    heads: Heads | None = None
    kv_heads: KvHeads | None = None
    head_dims: HeadDims | None = None

    def __post_init__(self) -> None:
        _freeze_lists(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceOptions:
    """What a person says about the space to search; ``SearchSpace.of`` makes the space of it.

    Attributes:
        hold: what stays the same when the number of heads changes.
        heads: ``auto`` for every legal count, a list of counts, or a range.
        tie: which sites share one count.
        sites: overrides by path, glob or ``role=cross``; the last one that names a setting wins.
        kv_heads: ``same`` keeps the group size, ``auto`` is every divisor of the head count, or a list of counts.
        head_dims: ``same``, or under ``hold: head_dim`` a list of head dimensions to search.
        head_dim: which head dimensions are wanted.

    Raises:
        SpaceError: lists every value that has no meaning.
    """

    hold: Hold
    heads: Heads = "auto"
    tie: Tie = "none"
    sites: Mapping[str, SiteOptions] = field(default_factory=dict, hash=False)
    kv_heads: KvHeads = "same"
    head_dims: HeadDims = "same"
    head_dim: HeadDimConstraint | None = None

    def __post_init__(self) -> None:
        _freeze_lists(self)
        problems = []
        if self.hold not in get_args(Hold):
            problems.append(f"hold: '{self.hold}' is not known; write {' or '.join(get_args(Hold))}")
        if not isinstance(self.tie, Stages) and self.tie not in ("none", "uniform", "ramp"):
            problems.append(f"tie: '{self.tie}' is not known; write none, uniform, ramp or stages")
        problems += _problems("", self, self.hold)
        kinds = rules.broken(
            {
                "sites": (self.sites, rules.a(Mapping, "a mapping of selector to SiteOptions")),
                "head_dim": (self.head_dim, rules.optional(rules.a(HeadDimConstraint, "a HeadDimConstraint"))),
            }
        )
        for selector, here in self.sites.items() if not kinds else ():
            if isinstance(here, SiteOptions):
                problems += _problems(f"sites: {selector}: ", here, self.hold)
            else:
                kinds.append(f"sites: {selector}: must be SiteOptions{rules.came(here)}")
        problems += kinds
        if problems:
            raise SpaceError(*problems)

    @property
    def maximum(self) -> int | None:
        """The largest head count that is named anywhere; ``None`` where none is."""
        every = (self.heads, *(here.heads for here in self.sites.values() if here.heads is not None))
        named = (Settings(heads, "same", "same").maximum for heads in every)
        return max((heads for heads in named if heads is not None), default=None)

    def selector_problems(self, sites: Sequence[AttentionSite]) -> list[str]:
        """One problem for each selector of an override that matches no site."""
        return [f"sites: {unmatched(selector, sites)}" for selector in self.sites if not select(selector, sites)]

    def settings(self, sites: Sequence[AttentionSite]) -> dict[str, Settings]:
        """What holds at each site, by path, overrides included."""
        found = {site.path: Settings(self.heads, self.kv_heads, self.head_dims) for site in sites}
        for selector, here in self.sites.items():
            for site in select(selector, sites):
                heads, kv_heads, head_dims = found[site.path]
                found[site.path] = Settings(
                    heads if here.heads is None else here.heads,
                    kv_heads if here.kv_heads is None else here.kv_heads,
                    head_dims if here.head_dims is None else here.head_dims,
                )
        return found


def _given(options: SiteOptions | SpaceOptions) -> dict[str, Heads | KvHeads | HeadDims]:
    """The settings that are given, by name."""
    every = {"heads": options.heads, "kv_heads": options.kv_heads, "head_dims": options.head_dims}
    return {name: setting for name, setting in every.items() if setting is not None}


def _freeze_lists(options: SiteOptions | SpaceOptions) -> None:
    """Turn lists into tuples, so that the options hash."""
    for name, setting in _given(options).items():
        if isinstance(setting, Sequence) and not isinstance(setting, str):
            object.__setattr__(options, name, tuple(setting))


def _problems(place: str, options: SiteOptions | SpaceOptions, hold: Hold) -> list[str]:
    problems = []
    for name, setting in _given(options).items():
        if name != "heads" or not isinstance(setting, HeadRange):
            problems += setting_problems(f"{place}{name}", setting, _WORDS[name])
    if hold == "width" and options.head_dims not in ("same", None):
        problems.append(
            f"{place}head_dims: {words(_given(options)['head_dims'])} cannot be searched under hold: width, where "
            "head_dim follows from the head count; write head_dims: same, or hold: head_dim"
        )
    return problems
