"""Applying a plan without saying what it holds: the plan says so itself."""

from collections.abc import Sequence

from torch import nn

from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold
from headtune.surgery.inputs import Inputs
from headtune.surgery.original import Original
from headtune.surgery.row_order import keep_roles
from headtune.surgery.transaction import planned
from headtune.surgery.wiring import wirings


def apply(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, seed: int = 0, copy: bool = True) -> nn.Module:
    """A copy of *model* that computes attention with the counts of *plan*, verified by watching it run.

    Rows of a projection that holds query, key and value of each head side by side (GPT-NeoX) are moved, so that rows
    which were trained to make queries go on making queries.

    Args:
        model: left as it is, unless *copy* is false.
        plan: counts for every site of the model; what it holds is read from it, see :func:`hold_of`.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        seed: of the tensors whose shape the plan changes, which are drawn anew.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself.

    Raises:
        SurgeryError: as :func:`headtune.surgery.apply_plan` does.
    """
    original = Original(model, inputs)
    fused = [site.path for site in original.sites if _turns_rows(original, site, plan)]
    before = wirings(model, inputs) if fused else {}
    hold = hold_of(plan, original.sites)
    edited = planned(original, plan, hold=hold, seed=seed, copy=copy, sites=original.sites)
    after = wirings(edited, inputs) if before else {}
    for path in fused:
        if path in before and path in after:
            keep_roles(edited, before[path], after[path])
    return edited


def _turns_rows(original: Original, site: AttentionSite, plan: HeadPlan) -> bool:
    """Whether another count may cut a projection of queries and keys at other places."""
    projections = original.projections(site.path)
    return site.path in plan.paths and plan[site.path] != site.present and bool(projections.q & projections.k - {""})


def hold_of(plan: HeadPlan, sites: Sequence[AttentionSite]) -> Hold:
    """``width`` where *plan* keeps the width of every site that it names, else ``head_dim``."""
    widths = {site.path: site.width for site in sites}
    kept = all(count.num_heads * count.head_dim == widths.get(path) for path, count in plan)
    return "width" if kept else "head_dim"
