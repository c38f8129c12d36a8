"""Head counts in a few words."""

from collections.abc import Sequence

from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite


def sites_in_words(sites: Sequence[AttentionSite]) -> str:
    """How many sites of each role and count."""
    kinds = [(site.role, site.present) for site in sites]
    return ", ".join(f"{kinds.count(kind)} {kind[0]} of {kind[1]}" for kind in dict.fromkeys(kinds))


def counts_in_words(plan: HeadPlan) -> str:
    """The different counts of a plan."""
    return ", ".join(dict.fromkeys(str(count) for _, count in plan))
