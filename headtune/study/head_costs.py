"""What one more head costs at each site, as a latency model that was fitted on measured plans tells it."""

from collections.abc import Sequence

from headtune.heads import AttentionSite, HeadPlan, SearchSpace
from headtune.heads.site import stack_path
from headtune.study.details import HeadCost
from headtune.timing.prediction import LatencyModel


def head_costs(model: LatencyModel, space: SearchSpace, seq_len: int | None) -> tuple[HeadCost, ...]:
    """One row for the sites that share a count, or that are alike: equal layers of one stack with the same choices.

    Sites whose count the space leaves no choice are left out.
    """
    rows: dict[tuple[object, ...], list[AttentionSite]] = {}
    low, high = space.smallest, space.largest
    for number, group in enumerate(space.groups):
        for site in group.sites:
            if low[site.path].num_heads < high[site.path].num_heads:
                rows.setdefault(_likeness(number, group.sites, site, low, high), []).append(site)
    return tuple(_cost(model, space, members, seq_len) for members in rows.values())


def _likeness(
    number: int, tied: Sequence[AttentionSite], site: AttentionSite, low: HeadPlan, high: HeadPlan
) -> tuple[object, ...]:
    """Equal for the sites of one row."""
    if len(tied) > 1:
        return (number,)
    return site.stack, site.embed_dim, site.present, low[site.path], high[site.path]


def _cost(model: LatencyModel, space: SearchSpace, members: Sequence[AttentionSite], seq_len: int | None) -> HeadCost:
    low, high = space.smallest, space.largest
    paths = tuple(site.path for site in members)
    return HeadCost(
        name=_name(members, space),
        paths=paths,
        counts=(low[paths[0]].num_heads, high[paths[0]].num_heads),
        ratio=model.mean_per_head({path: (low[path], high[path]) for path in paths}, seq_len),
    )


def _name(members: Sequence[AttentionSite], space: SearchSpace) -> str:
    """The path; of the sites of a whole stack, theirs with ``*`` for the layer; of others, the first and the last."""
    if len(members) == 1:
        return members[0].path or "(model)"
    if list(members) == [site for site in space.sites if site.stack == members[0].stack]:
        return stack_path(members[0].path)
    return f"{members[0].path} … {members[-1].path}"
