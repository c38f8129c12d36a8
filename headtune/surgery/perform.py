"""Making changes to a model: all of them, verified, or none."""

from collections.abc import Sequence

import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.surgery.adapters import FALLBACK, adapters
from headtune.surgery.changes import Change, second_try
from headtune.surgery.original import Original
from headtune.surgery.rng import isolated, seed_for
from headtune.surgery.snapshot import Snapshot
from headtune.surgery.verdict import verdict


def perform(model: nn.Module, plan: HeadPlan, made: Sequence[Change], original: Original, seed: int) -> nn.Module:
    """Make the changes to *model* itself and watch it run; whatever goes wrong, it is put back as it was.

    Args:
        model: the original or a copy of it.
        plan: what it should compute afterwards.
        made: the changes that lead there.
        original: the model as it was.
        seed: of tensors that are drawn anew.

    Returns:
        The changed model: *model*, or what stands in its place where it is itself an attention block.

    Raises:
        SurgeryError: it does not compute what the plan says, in whichever way the changes are made.
    """
    snapshot = Snapshot.of(model)
    problems: tuple[str, ...] = ()
    trying: Sequence[Change] | None = made
    while trying is not None:
        try:
            edited = _edited(model, trying, seed)
            found = verdict(edited, plan, trying, original)
        except BaseException:
            snapshot.restore()
            raise
        if not found.problems:
            return edited
        snapshot.restore()
        if found.blamed or not problems:  # a later way that gets to a block's own trouble tells more
            problems = found.problems
        trying = second_try(model, trying, found.blamed)
    raise SurgeryError(*problems)


def _edited(model: nn.Module, made: Sequence[Change], seed: int) -> nn.Module:
    # Parameters made in inference mode could never be trained.
    with torch.inference_mode(False), isolated(model) as seed_all:
        for change in made:
            seed_all(seed_for(change.site.path, seed))
            model = change.make(model)
    for adapter in (*adapters(), FALLBACK):
        adapter.settle(model)
    return model
