"""Numbers that a list names in vain: no site could have them."""

from collections.abc import Mapping, Sequence
from itertools import chain

from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors, head_counts, listing
from headtune.heads.options import SpaceOptions
from headtune.heads.pruned import pruned_count
from headtune.heads.setting import HeadRange, Heads, KvHeads, Settings
from headtune.heads.site import AttentionSite, Hold


def dead_numbers(
    sites: Sequence[AttentionSite], settings: Mapping[str, Settings], options: SpaceOptions, *, trained: bool = False
) -> tuple[list[str], set[AttentionSite]]:
    """One problem for each list that names a number which is legal for none of the sites that the list is for.

    Args:
        sites: the model's.
        settings: what holds at each site, by path.
        options: what the person said.
        trained: whether only pruning and merging change the counts.

    Returns:
        The problems, and the sites that have no choice because every number of their list is such a one.
    """
    problems: list[str] = []
    explained: set[AttentionSite] = set()
    for place, heads, kv_heads in _sources(options):
        legal_heads = {
            site: _legal_heads(site, here, options.hold, trained)
            for site in sites
            if (here := settings[site.path]).heads == heads
        }
        legal_kv_heads = {
            site: _legal_kv_heads(site, here, options.hold, trained)
            for site in sites
            if (here := settings[site.path]).kv_heads == kv_heads
        }
        for found, hopeless in (
            _dead(f"{place}heads", heads, legal_heads),
            _dead(f"{place}kv_heads", kv_heads, legal_kv_heads),
        ):
            problems += found
            explained |= hopeless
    return problems, explained


def _sources(options: SpaceOptions) -> list[tuple[str, Heads | None, KvHeads | None]]:
    """Where lists can stand: the place for a message, and what is said there."""
    overrides = [(f"sites: {selector}: ", here.heads, here.kv_heads) for selector, here in options.sites.items()]
    return [("", options.heads, options.kv_heads), *overrides]


def _dead(
    name: str, setting: Heads | KvHeads | None, legal_at: Mapping[AttentionSite, Sequence[int]]
) -> tuple[list[str], set[AttentionSite]]:
    """The problem of one list, and its sites where nothing that it names is legal."""
    listed = () if setting is None or isinstance(setting, str | HeadRange) else tuple(setting)
    legal = sorted(set(chain.from_iterable(legal_at.values())))
    dead = [number for number in listed if number not in legal]
    # Where nothing is legal at all there is another reason, which another problem names.
    if not dead or not legal:
        return [], set()
    verb = "is" if len(dead) == 1 else "are"
    problem = f"{name}: {listing(dead)} {verb} legal for none of these sites; legal: {listing(legal)}"
    return [problem], set(legal_at) if len(dead) == len(listed) else set()


def _legal_heads(site: AttentionSite, here: Settings, hold: Hold, trained: bool) -> list[int]:
    counts = head_counts(site, hold, maximum=None if trained else here.maximum)
    return [heads for heads in counts if here.kv_heads != "same" or heads % site.group_size == 0]


def _legal_kv_heads(site: AttentionSite, here: Settings, hold: Hold, trained: bool) -> list[int]:
    wanted = [heads for heads in _legal_heads(site, here, hold, trained) if here.wants_heads(heads)]
    counts = [HeadCount(heads, kv_heads, site.head_dim) for heads in wanted for kv_heads in divisors(heads)]
    return sorted({count.num_kv_heads for count in counts if not trained or pruned_count(site, count) is not None})
