"""Applying a plan to a model: all of it, verified, or nothing."""

import copy as copying
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import nn

import headtune.rules as rules
from headtune.errors import SurgeryError, in_words
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, Hold, the_sites
from headtune.surgery.adapters.ownership import shared
from headtune.surgery.arguments import HOLD, PLAN, check_arguments
from headtune.surgery.changes import changes
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.original import Original
from headtune.surgery.perform import perform
from headtune.surgery.plan_check import plan_problems
from headtune.surgery.refusals import check_workable, optimizers_kept
from headtune.surgery.saving import Earlier, noted


def apply_plan(
    model: nn.Module,
    plan: HeadPlan,
    inputs: Inputs,
    *,
    hold: Hold,
    seed: int = 0,
    copy: bool = True,
    sites: Sequence[AttentionSite] | None = None,
) -> nn.Module:
    """A copy of *model* that computes attention with the counts of *plan*, verified by watching it run.

    Tensors keep their values wherever the plan keeps their shape: under ``hold="width"`` all of them (keys and values
    only change where the plan groups heads otherwise), except that a stored scale follows head_dim. The others are
    drawn anew from *seed* and the site's path, from their module's own initial distribution. An
    ``nn.MultiheadAttention`` that cannot express its counts gives way to :class:`headtune.nn.HeadedAttention`, and
    ``nn.TransformerEncoder`` stops using nested tensors where a layer could not take them. Device, type,
    ``requires_grad``, hooks, training modes and the random state stay. An optimizer made before holds old parameters.

    Args:
        model: left as it is, unless *copy* is false.
        plan: counts for every site of the model.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        hold: what stays the same when the number of heads changes: ``width`` or ``head_dim``.
        seed: of the tensors that are drawn anew.
        copy: False edits *model* itself, and puts everything back if that fails.
        sites: what :func:`find_sites` returned for this model; saves watching it once more.

    Returns:
        The copy, or *model* itself.

    Raises:
        SurgeryError: the plan does not fit (every problem), a block cannot be changed, the changed model does not
            compute what the plan says, or *copy* is false and an optimizer holds weights that change. Nothing has
            changed then.
    """
    check_arguments(
        {
            "plan": (plan, PLAN),
            "hold": (hold, HOLD),
            "seed": (seed, rules.integer),
            "copy": (copy, rules.truth),
            "sites": (sites, rules.optional(the_sites)),
        }
    )
    check_workable(model)
    check_inputs(inputs)
    original = Original(model, inputs)
    known = original.sites if sites is None or not copy else sites
    with nullcontext() if copy else optimizers_kept(model):
        return planned(original, plan, hold=hold, seed=seed, copy=copy, sites=known)


def planned(
    original: Original, plan: HeadPlan, *, hold: Hold, seed: int, copy: bool, sites: Sequence[AttentionSite]
) -> nn.Module:
    """What :func:`apply_plan` returns, of a model that may have been watched already."""
    model = original.model
    problems = tuple(plan_problems(plan, sites, hold))
    if problems:
        raise SurgeryError(*problems)
    made = changes(original, plan, sites)
    problems = tuple(reason for change in made if (reason := change.why_not(model)) is not None)
    if problems:
        raise SurgeryError(*problems)
    if not copy and any(change.resizes and not change.site.path for change in made):
        raise SurgeryError("the model is itself the attention block that changes its size: use copy=True")
    model = copied(model) if copy else model
    earlier = Earlier(model)
    return noted(perform(model, plan, made, original, seed), earlier, plan)


def copied(model: nn.Module) -> nn.Module:
    """A deep copy of *model*.

    Raises:
        SurgeryError: it cannot be copied, or not whole: what the copy shares with it would change with the copy.
    """
    try:
        with torch.inference_mode(False):  # a copy made in inference mode could never be trained
            made = copying.deepcopy(model)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise SurgeryError(
            f"{type(model).__name__} cannot be copied ({in_words(error)}); use copy=False to change it in place"
        ) from error
    if parts := shared(model, made):
        raise SurgeryError(
            f"{type(model).__name__} cannot be copied: its copy shares {', '.join(parts)} with it, which would change "
            "too; let __deepcopy__ copy everything, or use copy=False to change it in place"
        )
    return made
