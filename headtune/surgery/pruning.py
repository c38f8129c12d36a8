"""Taking heads out of a trained model: what is left computes what the whole one does with those heads silenced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.mask import HeadMask
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.attributes import set_counts
from headtune.surgery.adapters.ownership import owner, replace_module, tied, why_not_replaced
from headtune.surgery.adapters.replacement import replacement
from headtune.surgery.find import surveyed
from headtune.surgery.inputs import Inputs, check_inputs, described
from headtune.surgery.original import Original
from headtune.surgery.outputs import furthest_apart, outputs
from headtune.surgery.probe import ForwardFailed
from headtune.surgery.refusals import check_workable
from headtune.surgery.saving import Earlier, noted
from headtune.surgery.slicing import drop_inputs, drop_outputs, silence, why_not_sliced
from headtune.surgery.snapshot import Snapshot
from headtune.surgery.transaction import copied
from headtune.surgery.wiring import Wiring, wirings

Mask = HeadMask | Mapping[str, Iterable[int]]


def prune(model: nn.Module, mask: Mask, inputs: Inputs, *, copy: bool = True) -> nn.Module:
    """A copy of *model* without some heads, which computes what *model* does with those heads silenced.

    Which rows and columns belong to which head is found by following a forward pass, not by their order, and the
    result is compared with the model whose output projections ignore the heads: nothing is returned unless both agree.
    Where query heads share key/value heads, whole groups may go, or as many heads of each.

    Args:
        model: left as it is, unless *copy* is false.
        mask: the heads that stay, by path; a site that is not named keeps all.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself. An optimizer made before holds old parameters.

    Raises:
        PlanError: the mask does not fit the sites.
        SurgeryError: a block cannot lose heads (every reason), or the result computes something else.
    """
    check_workable(model)
    check_inputs(inputs)
    original = Original(model, inputs)
    sites = original.sites
    mask = mask if isinstance(mask, HeadMask) else HeadMask.of(mask)
    plan = mask.plan(sites)
    cuts = _cuts(model, inputs, [site for site in sites if plan[site.path] != site.present], mask, plan)
    silenced = _silenced(model, inputs, cuts)
    edited = copied(model) if copy else model
    snapshot, earlier = Snapshot.of(edited), Earlier(edited)
    try:
        edited = _cut(edited, cuts)
        problems = _problems(edited, inputs, plan, silenced)
    except BaseException:
        snapshot.restore()
        raise
    if problems:
        snapshot.restore()
        raise SurgeryError(*problems)
    return noted(edited, earlier, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """What one site loses.

    Attributes:
        made: weight → the features that it puts out no more.
        read: weight → the features that it reads no more.
    """

    site: AttentionSite
    wanted: HeadCount
    made: Mapping[str, frozenset[int]]
    read: Mapping[str, frozenset[int]]


def _cuts(
    model: nn.Module, inputs: Inputs, sites: list[AttentionSite], mask: HeadMask, plan: HeadPlan
) -> tuple[_Cut, ...]:
    snapshot = Snapshot.of(model)
    problems = [
        f"{site.path or 'the model'}: {reason}"
        for site in sites
        if isinstance(block := model.get_submodule(site.path), nn.MultiheadAttention)
        and (reason := why_not_replaced(model, block, site.path)) is not None
    ]
    if problems:
        raise SurgeryError(*problems)
    try:
        opened = _opened(model, sites)
        found = wirings(opened, inputs) if sites else {}
        reasons = [
            f"{site.path or 'the model'}: {reason}"
            for site in sites
            if (reason := _why_not(opened, found.get(site.path))) is not None
        ]
    except ForwardFailed as failed:
        raise SurgeryError(f"the forward pass with gradients raised {described(failed.error)}") from failed.error
    finally:
        snapshot.restore()
    if reasons:
        raise SurgeryError(*reasons)
    return tuple(_cut_of(site, found[site.path], mask[site.path], plan[site.path]) for site in sites)


def _cut_of(site: AttentionSite, wiring: Wiring, kept: tuple[int, ...], wanted: HeadCount) -> _Cut:
    every = range(wiring.num_heads)
    made, needed = wiring.of_heads(every), wiring.of_heads(kept)
    read, still = wiring.read_from(every), wiring.read_from(kept)
    return _Cut(
        site=site,
        wanted=wanted,
        made={name: features - needed.get(name, frozenset()) for name, features in made.items()},
        read={name: features - still.get(name, frozenset()) for name, features in read.items()},
    )


def _why_not(model: nn.Module, wiring: Wiring | None) -> str | None:
    if wiring is None:
        return "its heads cannot be followed from one projection to the next, so none can be cut out"
    if mixed := wiring.why_mixed():
        return f"{mixed}, so that no head can be cut out alone"
    every = range(wiring.num_heads)
    weights = (*wiring.of_heads(every), *wiring.read_from(every))
    for name in weights:
        if reason := why_not_sliced(model, name):
            return reason
    ties = tied(model, weights)
    return f"{ties[0]}: untie them first, or change neither" if ties else None


def _opened(model: nn.Module, sites: Iterable[AttentionSite]) -> nn.Module:
    """The model with a block of separate projections in place of each fused ``nn.MultiheadAttention``."""
    for site in sites:
        block = model.get_submodule(site.path)
        if isinstance(block, nn.MultiheadAttention):
            model = replace_module(model, block, replacement(block, site.present))
    return model


def _silenced(model: nn.Module, inputs: Inputs, cuts: tuple[_Cut, ...]) -> list[torch.Tensor]:
    snapshot = Snapshot.of(model)
    try:
        for cut in cuts:
            for name, features in cut.read.items():
                silence(owner(model, name)[1], features)
        return outputs(model, inputs)
    finally:
        snapshot.restore()


def _cut(model: nn.Module, cuts: tuple[_Cut, ...]) -> nn.Module:
    with torch.inference_mode(False):
        model = _opened(model, [cut.site for cut in cuts])
        for cut in cuts:
            for name, features in cut.made.items():
                drop_outputs(owner(model, name)[1], features)
            for name, features in cut.read.items():
                drop_inputs(owner(model, name)[1], features)
            set_counts(model.get_submodule(cut.site.path), cut.site.present, cut.wanted)
    for encoder in model.modules():
        if isinstance(encoder, nn.TransformerEncoder):
            encoder.use_nested_tensor = False
    return model


def _problems(model: nn.Module, inputs: Inputs, plan: HeadPlan, silenced: list[torch.Tensor]) -> list[str]:
    try:
        found = {block.site.path: block.site.present for block in surveyed(model, inputs).blocks.values()}
        pruned = outputs(model, inputs)
    except SurgeryError as error:
        return [f"without the heads that go, {problem}" for problem in error.problems]
    wrong = [
        f"{path or 'the model'}: {wanted} should be left, but it computes {found.get(path, 'no attention')}"
        for path, wanted in plan
        if found.get(path) != wanted
    ]
    if wrong:
        return wrong
    gap = furthest_apart(pruned, silenced)
    if gap is not None:
        return [f"without the heads that go, the output differs from that with these heads silenced by {gap:.3g}"]
    return []
