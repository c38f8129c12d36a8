"""The choices that sites have in common, and why when there are none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headtune.heads.choice import HeadChoice
from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors, head_counts, listing
from headtune.heads.options import SpaceOptions
from headtune.heads.pruned import pruned_count
from headtune.heads.setting import Heads, KvHeads, Settings, words
from headtune.heads.site import AttentionSite


class Rule(NamedTuple):
    """One reason to leave a choice out."""

    name: str
    allows: Callable[[AttentionSite, HeadCount], bool]


_TRAINED = Rule("weights: keep", lambda site, count: pruned_count(site, count) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Every choice that the hold allows at one or more of some sites, and the rules that it must pass at each of them.

    Attributes:
        counts: for each choice, ascending, the counts of the sites at which the hold allows it, by path.
        sites: the sites that share the choice.
        rules: what else is asked.
        tie: the setting that makes the sites share.
    """

    counts: Mapping[HeadChoice, Mapping[str, HeadCount]]
    sites: tuple[AttentionSite, ...]
    rules: tuple[Rule, ...]
    tie: str

    @classmethod
    def of(
        cls,
        sites: tuple[AttentionSite, ...],
        settings: Mapping[str, Settings],
        options: SpaceOptions,
        *,
        trained: bool = False,
    ) -> "Candidates":
        """All that the sites could share under the options; only what pruning leaves if their heads are *trained*."""
        grouped = any(settings[site.path].kv_heads != "same" for site in sites)
        resized = any(settings[site.path].head_dims != "same" for site in sites)
        counts: dict[HeadChoice, dict[str, HeadCount]] = {}
        for site in sites:
            for choice in _site_choices(site, settings[site.path], options, grouped=grouped, resized=resized):
                counts.setdefault(choice, {})[site.path] = choice.at(site, options.hold)
        return cls(
            counts=dict(sorted(counts.items())),
            sites=sites,
            rules=(*_rules(sites, settings, options), *([_TRAINED] if trained else [])),
            tie=f"tie: {options.tie}",
        )

    @property
    def choices(self) -> tuple[HeadChoice, ...]:
        """The choices that every site allows, ascending."""
        return tuple(
            choice
            for choice in self.counts
            if self._everywhere(choice) and all(self._passes(choice, rule) for rule in self.rules)
        )

    def why_empty(self) -> str:
        """What rules the choices out, the tightest rule first."""
        ruled_out = {rule.name: sum(not self._passes(choice, rule) for choice in self.counts) for rule in self.rules}
        ruled_out["being legal at one of them but not at another"] = sum(
            not self._everywhere(choice) for choice in self.counts
        )
        tightest_first = sorted(ruled_out.items(), key=lambda item: -item[1])
        total = len(self.counts)
        reasons = [
            f"{name} rules out {'all' if excluded == total else f'{excluded} of'} {total}"
            for name, excluded in tightest_first
            if excluded
        ]
        heads = sorted({choice.num_heads for choice in self.counts})
        choice = "choice" if len(self.sites) == 1 else f"common choice ({self.tie})"
        return f"no {choice} is left of {listing(heads)} heads, because {', '.join(reasons)}; loosen the first"

    def _everywhere(self, choice: HeadChoice) -> bool:
        return len(self.counts[choice]) == len(self.sites)

    def _passes(self, choice: HeadChoice, rule: Rule) -> bool:
        counts = self.counts[choice]
        return all(rule.allows(site, counts[site.path]) for site in self.sites if site.path in counts)


def _site_choices(
    site: AttentionSite, here: Settings, options: SpaceOptions, *, grouped: bool, resized: bool
) -> list[HeadChoice]:
    """What the hold allows at one site; kv_heads and head_dim are spelled out where the sites' settings ask for it."""
    dims: Sequence[int | None] = [None]
    if resized:
        dims = [site.head_dim] if isinstance(here.head_dims, str) else here.head_dims
    return [
        HeadChoice(heads, kv_heads, head_dim)
        for heads in head_counts(site, options.hold, maximum=here.maximum)
        for kv_heads in (divisors(heads) if grouped else [None])
        for head_dim in dims
    ]


def _rules(sites: Sequence[AttentionSite], settings: Mapping[str, Settings], options: SpaceOptions) -> tuple[Rule, ...]:
    heads = dict.fromkeys(settings[site.path].heads for site in sites)
    kv_heads = dict.fromkeys(settings[site.path].kv_heads for site in sites)
    sizes = dict.fromkeys(site.group_size for site in sites)
    return (
        *(_heads_rule(wanted, settings) for wanted in heads if wanted != "auto"),
        *(_kv_rule(wanted, settings) for wanted in kv_heads if not isinstance(wanted, str)),
        *(_group_rule(size, settings) for size in sizes if "same" in kv_heads and size > 1),
        *(_head_dim_rule(part) for part in (options.head_dim.parts() if options.head_dim else ())),
    )


def _heads_rule(wanted: Heads, settings: Mapping[str, Settings]) -> Rule:
    def allows(site: AttentionSite, count: HeadCount) -> bool:
        here = settings[site.path]
        return here.heads != wanted or here.wants_heads(count.num_heads)

    return Rule(f"heads: {words(wanted)}", allows)


def _kv_rule(wanted: KvHeads, settings: Mapping[str, Settings]) -> Rule:
    def allows(site: AttentionSite, count: HeadCount) -> bool:
        here = settings[site.path]
        return here.kv_heads != wanted or here.wants_kv_heads(count.num_kv_heads)

    return Rule(f"kv_heads: {words(wanted)}", allows)


def _group_rule(size: int, settings: Mapping[str, Settings]) -> Rule:
    def allows(site: AttentionSite, count: HeadCount) -> bool:
        keeps = settings[site.path].kv_heads == "same" and site.group_size == size
        return not keeps or count.num_kv_heads * size == count.num_heads

    return Rule(f"kv_heads: same (groups of {size})", allows)


def _head_dim_rule(part: HeadDimConstraint) -> Rule:
    return Rule(str(part), lambda site, count: part.violation(count.head_dim) <= 0)
