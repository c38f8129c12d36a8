"""Which heads go next, when a trained model loses them a few at a time."""

from collections.abc import Mapping, Sequence

from headtune.errors import PlanError
from headtune.heads.mask import HeadMask
from headtune.heads.site import AttentionSite


def without_least(
    mask: HeadMask, sites: Sequence[AttentionSite], scores: Mapping[str, Sequence[float]], heads: int
) -> HeadMask:
    """The mask without the *heads* that score least over all sites, or a few more where they go together.

    A key/value head goes with all of its query heads, by the sum of their scores. At least one stays at every site.

    Args:
        mask: the heads that are there now.
        sites: the sites of the whole model, the only ones that may lose heads.
        scores: path → one score for each head of the site that *mask* keeps, in their order.
        heads: how many are to go; fewer go where no more can.

    Raises:
        PlanError: *mask* does not fit the sites, or a site has another number of scores.
    """
    mask = mask.at(sites)
    kept = {site.path: mask.heads(site) for site in sites}
    problems = [
        f"{path or 'the model'}: {len(scores.get(path, ()))} scores for {len(stay)} heads"
        for path, stay in kept.items()
        if len(scores.get(path, ())) != len(stay)
    ]
    if problems:
        raise PlanError(*problems)
    groups: list[tuple[float, str, int]] = []
    left: dict[str, dict[int, list[int]]] = {}
    for site in sites:
        worth: dict[int, float] = {}
        for head, score in zip(kept[site.path], scores[site.path], strict=True):
            left.setdefault(site.path, {}).setdefault(head // site.group_size, []).append(head)
            worth[head // site.group_size] = worth.get(head // site.group_size, 0.0) + score
        groups += [(score, site.path, group) for group, score in worth.items()]
    for _, path, group in sorted(groups, key=lambda found: found[0]):
        if heads <= 0:
            break
        if len(left[path]) > 1:
            heads -= len(left[path].pop(group))
    return HeadMask.of({path: [head for group in stay.values() for head in group] for path, stay in left.items()})
