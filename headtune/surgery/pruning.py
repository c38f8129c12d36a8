"""Taking heads out of a trained model: what is left computes what the whole one does with those heads silenced."""

from collections.abc import Iterable, Mapping
from functools import partial

from torch import nn

import headtune.rules as rules
from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import FALLBACK, adapter_for
from headtune.surgery.arguments import check_arguments
from headtune.surgery.cutting import Cut, Cuts
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.original import Original
from headtune.surgery.proof import Unproven, followed, outputs_after, proven
from headtune.surgery.refusals import check_no_optimizer, check_workable


def prune(
    model: nn.Module, mask: HeadMask | Mapping[str, Iterable[int]], inputs: Inputs, *, copy: bool = True
) -> nn.Module:
    """A copy of *model* without some heads, which computes what *model* does with those heads silenced.

    Which rows and columns belong to which head is found by following a forward pass, not by their order, and the
    result is compared with the model whose output projections ignore the heads: what each attention block puts out and
    what the model returns, without the attention weights. Nothing is returned unless both agree but for the rounding of
    the type that they compute in. The comparison is as good as the inputs: give some with many different tokens.

    Where query heads share key/value heads, whole groups may go, or as many heads of each. ``nn.MultiheadAttention``
    gives way to :class:`headtune.nn.HeadedAttention`; ``nn.TransformerEncoder`` then returns values other than 0 at
    padded positions, as it does in training mode.

    Args:
        model: left as it is, unless *copy* is false.
        mask: the heads that stay, by path, glob over whole paths (``"encoder.*"``) or role (``"role=cross"``), of which
            the last wins; a site that is not named keeps all.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself.

    Raises:
        PlanError: the mask is none, or does not fit the sites.
        SurgeryError: a block cannot lose heads (every reason), or the result computes something else; or *copy* is
            false and an optimizer holds the weights.
    """
    check_arguments({"copy": (copy, rules.truth)})
    check_workable(model)
    if not copy:
        check_no_optimizer(model)
    return pruned(model, mask, inputs, copy=copy)


def pruned(model: nn.Module, mask: HeadMask | Mapping[str, Iterable[int]], inputs: Inputs, *, copy: bool) -> nn.Module:
    """What :func:`prune` returns, whoever holds the weights."""
    check_inputs(inputs)
    mask = mask if isinstance(mask, HeadMask) else HeadMask.of(mask)
    sites = Original(model, inputs).sites
    mask = mask.at(sites)
    losing = [site for site in sites if len(mask.heads(site)) < site.num_heads]
    cuts = Cuts.of(losing, followed(model, inputs, losing), mask)
    expected = outputs_after(model, inputs, losing, cuts.silence)
    plan = _plan_left(sites, cuts)

    def attempt(input_sized: frozenset[str]) -> nn.Module:
        edit = partial(cuts.make, input_sized=input_sized)
        return proven(model, plan, inputs, losing, edit=edit, expected=expected, copy=copy)

    try:
        return attempt(frozenset())
    except Unproven as first:
        others = _like(model, first.blamed, losing)
        if not others:
            raise (_explained(model, plan, losing, first) or first) from first.__cause__
        try:
            return attempt(others)
        except Unproven:
            raise first from None


def _like(model: nn.Module, blamed: Iterable[str], losing: Iterable[AttentionSite]) -> frozenset[str]:
    """The hand-written blocks of the blamed ones' classes: they may read their width off their input."""
    classes = {type(model.get_submodule(path)) for path in blamed}
    blocks = {site.path: model.get_submodule(site.path) for site in losing}
    return frozenset(
        path for path, block in blocks.items() if type(block) in classes and adapter_for(block) is FALLBACK
    )


def _explained(
    model: nn.Module, plan: HeadPlan, losing: Iterable[AttentionSite], failed: Unproven
) -> SurgeryError | None:
    """What the families of the blamed blocks say of another count, which tells more than what PyTorch raised."""
    reasons = []
    for site in losing:
        adapter = adapter_for(model.get_submodule(site.path))
        reason = adapter.why_not_rehead(model, site, plan[site.path]) if adapter is not FALLBACK else None
        if reason is not None:
            reasons.append(f"{site.path or 'the model'}: {reason}")
    return SurgeryError(*reasons) if failed.blamed and reasons else None


def _plan_left(sites: Iterable[AttentionSite], cuts: Cuts) -> HeadPlan:
    made = {cut.site.path: cut for cut in cuts.cuts}
    return HeadPlan.of(
        {site.path: _count_left(site, made[site.path]) if site.path in made else site.present for site in sites}
    )


def _count_left(site: AttentionSite, cut: Cut) -> HeadCount:
    """The counts as they will be seen: a model that repeats its keys may hide how few key/value heads it has."""
    hidden = site.num_kv_heads == site.num_heads
    return cut.wanted._replace(num_kv_heads=cut.wanted.num_heads) if hidden else cut.wanted
