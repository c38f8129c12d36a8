"""Applying a plan without saying what it holds: the plan says so itself."""

from collections.abc import Sequence

from torch import nn

from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold
from headtune.surgery.find import find_sites
from headtune.surgery.inputs import Inputs
from headtune.surgery.transaction import apply_plan


def apply(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, seed: int = 0, copy: bool = True) -> nn.Module:
    """A copy of *model* that computes attention with the counts of *plan*, verified by watching it run.

    Args:
        model: left as it is, unless *copy* is false.
        plan: counts for every site of the model; what it holds is read from it, see :func:`hold_of`.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        seed: of the tensors whose shape the plan changes, which are drawn anew.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself.

    Raises:
        SurgeryError: as :func:`apply_plan` does.
    """
    sites = find_sites(model, inputs)
    return apply_plan(model, plan, inputs, hold=hold_of(plan, sites), seed=seed, copy=copy, sites=sites)


def hold_of(plan: HeadPlan, sites: Sequence[AttentionSite]) -> Hold:
    """``width`` where *plan* keeps the width of every site that it names, else ``head_dim``."""
    widths = {site.path: site.width for site in sites}
    kept = all(count.num_heads * count.head_dim == widths.get(path) for path, count in plan)
    return "width" if kept else "head_dim"
