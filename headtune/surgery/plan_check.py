"""Whether a plan fits a model's sites."""

from collections.abc import Iterator, Sequence

from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors, listing
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold


def plan_problems(plan: HeadPlan, sites: Sequence[AttentionSite], hold: Hold) -> Iterator[str]:
    """What keeps *plan* from being applied to *sites* under *hold*, each as one sentence."""
    known = {site.path: site for site in sites}
    for path in plan.paths:
        if path not in known:
            yield f"{path}: the model has no such attention block; it has {', '.join(known)}"
    for path, site in known.items():
        if path not in plan.paths:
            yield f"{path}: the plan says nothing about this block; a plan names every block, at present {site.present}"
        else:
            yield from (f"{path}: {problem}" for problem in _count_problems(plan[path], site, hold))


def _count_problems(count: HeadCount, site: AttentionSite, hold: Hold) -> Iterator[str]:
    if count.num_heads % count.num_kv_heads:
        legal = listing(divisors(count.num_heads))
        yield f"{count.num_kv_heads} key/value heads do not divide {count.num_heads} heads; legal: {legal}"
    width = count.num_heads * count.head_dim
    if hold == "width" and width != site.width:
        yield (
            f"{count} makes a width of {width}, but hold: width keeps {site.width}; "
            f"legal numbers of heads: {listing(divisors(site.width))}"
        )
