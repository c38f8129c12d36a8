"""The rule of thumb, about 64 features per head and at most 8 heads, as a plan that is legal for the sites."""

from collections.abc import Sequence
from itertools import chain

from headtune.heads.choice import HeadChoice
from headtune.heads.legal import legal_heads, nearest
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold
from headtune.heads.tie import stack_sites


def rule_heads(d_model: int) -> int:
    """``max(1, min(8, round(d_model / 64)))``, where halves round to even as ``round`` does."""
    return max(1, min(8, round(d_model / 64)))


def rule_of_thumb(sites: Sequence[AttentionSite], hold: Hold) -> HeadPlan:
    """Every site at the legal count nearest to the rule of thumb for its embed_dim; of two equally near the smaller.

    Under ``hold: head_dim`` the rule reads min(present, rule). The present group size of key/value heads stays.
    """
    return _plan(sites, hold, {site.path: _count(site, hold) for site in sites})


def mixed_rule(sites: Sequence[AttentionSite], hold: Hold) -> HeadPlan:
    """The deep half of each stack at the rule of thumb, the shallow half at the legal count nearest to half of it.

    The middle site of an odd stack belongs to the deep half.
    """
    stacks = stack_sites(sites).values()
    shallow = set(chain.from_iterable(stack[: len(stack) // 2] for stack in stacks))
    counts = {site.path: _count(site, hold) for site in sites}
    halves = {site.path: nearest(legal_heads(site, hold), counts[site.path] / 2) for site in shallow}
    return _plan(sites, hold, counts | halves)


def _count(site: AttentionSite, hold: Hold) -> int:
    rule = rule_heads(site.embed_dim)
    return nearest(legal_heads(site, hold), rule if hold == "width" else min(site.num_heads, rule))


def _plan(sites: Sequence[AttentionSite], hold: Hold, counts: dict[str, int]) -> HeadPlan:
    return HeadPlan.of({site.path: HeadChoice(counts[site.path]).at(site, hold) for site in sites})
