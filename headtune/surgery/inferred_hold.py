"""Applying a plan without saying what it holds: the plan says so itself."""

from collections.abc import Sequence
from contextlib import nullcontext

from torch import nn

import headtune.rules as rules
from headtune.errors import SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold, the_sites
from headtune.surgery.adapters.layout import rows
from headtune.surgery.arguments import PLAN, check_arguments
from headtune.surgery.inputs import Inputs
from headtune.surgery.original import Original
from headtune.surgery.refusals import optimizers_kept
from headtune.surgery.row_order import keep_roles
from headtune.surgery.transaction import planned
from headtune.surgery.wiring import Wiring, follow


def apply(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, seed: int = 0, copy: bool = True) -> nn.Module:
    """A copy of *model* that computes attention with the counts of *plan*, verified by watching it run.

    Rows of a projection that holds query, key and value of each head side by side (GPT-NeoX) are moved, so that rows
    which were trained to make queries go on making queries. Where one projection makes several of them and its rows
    cannot be followed, nothing is changed.

    Args:
        model: left as it is, unless *copy* is false.
        plan: counts for every site of the model; what it holds is read from it, see :func:`hold_of`.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        seed: of the tensors whose shape the plan changes, which are drawn anew.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself.

    Raises:
        SurgeryError: as :func:`headtune.surgery.apply_plan` does, or rows that may have to move cannot be followed.
    """
    check_arguments({"plan": (plan, PLAN), "seed": (seed, rules.integer), "copy": (copy, rules.truth)})
    original = Original(model, inputs)
    fused = [site.path for site in original.sites if _turns_rows(original, site, plan)]
    before = _wirings(model, inputs, fused)
    hold = hold_of(plan, original.sites)
    with nullcontext() if copy else optimizers_kept(model):
        edited = planned(original, plan, hold=hold, seed=seed, copy=copy, sites=original.sites)
        after = _wirings(edited, inputs, list(before))
        for path, wiring in before.items():
            keep_roles(edited, wiring, after[path])
    return edited


def _turns_rows(original: Original, site: AttentionSite, plan: HeadPlan) -> bool:
    """Whether another count may cut a projection that makes several of queries, keys and values at other places."""
    if site.path not in plan.paths or plan[site.path] == site.present:
        return False
    seen = original.projections(site.path)
    makes = {name: "".join(side for side in "qkv" if name in getattr(seen, side)) for name in seen.q | seen.k | seen.v}
    return any(
        name and len(part) > 1 and rows(part, site.present) == rows(part, plan[site.path])
        for name, part in makes.items()
    )


def _wirings(model: nn.Module, inputs: Inputs, paths: Sequence[str]) -> dict[str, Wiring]:
    """The wirings of the blocks at *paths*; none on the meta device, where rows hold nothing.

    Raises:
        SurgeryError: the heads of a block cannot be followed (every reason).
    """
    if not paths or any(parameter.is_meta for parameter in model.parameters()):
        return {}
    found = follow(model, inputs)
    problems = [
        f"{path or 'the model'}: whether rows of its projection must move for another count cannot be seen: "
        f"{found.reasons.get(path, 'no attention is seen here when the model runs once more')}"
        for path in paths
        if path not in found.made
    ]
    if problems:
        raise SurgeryError(*problems)
    return {path: found.made[path] for path in paths}


def hold_of(plan: HeadPlan, sites: Sequence[AttentionSite]) -> Hold:
    """``width`` where *plan* keeps the width of every site that it names, else ``head_dim``."""
    check_arguments({"plan": (plan, PLAN), "sites": (sites, the_sites)})
    widths = {site.path: site.width for site in sites}
    kept = all(count.num_heads * count.head_dim == widths.get(path) for path, count in plan)
    return "width" if kept else "head_dim"
