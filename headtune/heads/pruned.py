"""What pruning can leave of a trained site, before its key/value heads are merged."""

from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors
from headtune.heads.site import AttentionSite


def pruned_count(site: AttentionSite, wanted: HeadCount) -> HeadCount | None:
    """The counts to prune *site* to, so that merging key/value heads makes *wanted* of them.

    Pruning leaves some key/value heads, each with equally many of its query heads; merging then joins neighbours. Of
    several ways the one that merges least is taken.

    Returns:
        *wanted* itself where nothing is merged; ``None`` where trained heads cannot become *wanted*.
    """
    if wanted.head_dim != site.head_dim:
        return None
    for kv_heads in divisors(wanted.num_heads):
        fits = kv_heads <= site.num_kv_heads and wanted.num_heads // kv_heads <= site.group_size
        if fits and kv_heads % wanted.num_kv_heads == 0:
            return wanted._replace(num_kv_heads=kv_heads)
    return None


def pruning_problem(site: AttentionSite, wanted: HeadCount) -> str | None:
    """Why trained heads of *site* cannot become *wanted*, as a sentence; ``None`` where they can."""
    if pruned_count(site, wanted) is not None:
        return None
    kept = f"{site.path or 'the model'}: trained heads, {site.present} at present, cannot become {wanted}"
    if wanted.head_dim != site.head_dim:
        return f"{kept}: their head_dim stays {site.head_dim}"
    return (
        f"{kept}: each of at most {site.num_kv_heads} key/value heads keeps equally many of its {site.group_size} "
        "query heads, and then key/value heads are merged in equal groups"
    )
