"""Edits of trained weights that are compared, output by output, with what they must compute."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import ADAPTERS
from headtune.surgery.adapters.linears import why_not_linear
from headtune.surgery.adapters.ownership import replace_module, tied, why_not_replaced
from headtune.surgery.adapters.replacement import replacement
from headtune.surgery.find import surveyed
from headtune.surgery.inputs import Inputs, described
from headtune.surgery.outputs import furthest_apart, outputs
from headtune.surgery.probe import ForwardFailed
from headtune.surgery.snapshot import Snapshot
from headtune.surgery.transaction import copied
from headtune.surgery.wiring import Wiring, wirings

Edit = Callable[[nn.Module], None]
"""Changes a model whose blocks have projections of their own."""


def followed(model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite]) -> dict[str, Wiring]:
    """The wiring of each of the *sites*, from a model with separate projections; the model is left as it was.

    Raises:
        SurgeryError: the heads of a block cannot be told apart, or their projections cannot change (every reason).
    """
    if not sites:
        return {}
    _check([(site, _why_not_opened(model, site)) for site in sites])
    snapshot = Snapshot.of(model)
    try:
        opened = _opened(model, sites)
        found = wirings(opened, inputs)
        _check([(site, _why_not_followed(opened, found.get(site.path))) for site in sites])
    except ForwardFailed as failed:
        raise SurgeryError(f"the forward pass with gradients raised {described(failed.error)}") from failed.error
    finally:
        snapshot.restore()
    return found


def outputs_after(model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite], edit: Edit) -> list[Tensor]:
    """What *model* would put out after *edit*; it is left as it was."""
    snapshot = Snapshot.of(model)
    try:
        opened = _opened(model, sites)
        edit(opened)
        return outputs(opened, inputs)
    finally:
        snapshot.restore()


def proven(
    model: nn.Module,
    plan: HeadPlan,
    inputs: Inputs,
    sites: Sequence[AttentionSite],
    *,
    edit: Edit,
    expected: Sequence[Tensor],
    copy: bool,
) -> nn.Module:
    """*model*, or a copy of it, after *edit*: with the counts of *plan*, and putting out what was *expected*.

    Raises:
        SurgeryError: it does something else; everything is as it was then.
    """
    target = copied(model) if copy else model
    snapshot = Snapshot.of(target)
    try:
        with torch.inference_mode(False):
            edited = _opened(target, sites)
            edit(edited)
            for adapter in ADAPTERS:
                adapter.settle(edited)
        problems = _problems(edited, inputs, plan, expected)
    except BaseException:
        snapshot.restore()
        raise
    if problems:
        snapshot.restore()
        raise SurgeryError(*problems)
    return edited


def _check(reasons: Sequence[tuple[AttentionSite, str | None]]) -> None:
    problems = [f"{site.path or 'the model'}: {reason}" for site, reason in reasons if reason is not None]
    if problems:
        raise SurgeryError(*problems)


def _why_not_opened(model: nn.Module, site: AttentionSite) -> str | None:
    block = model.get_submodule(site.path)
    return why_not_replaced(model, block, site.path) if isinstance(block, nn.MultiheadAttention) else None


def _opened(model: nn.Module, sites: Sequence[AttentionSite]) -> nn.Module:
    """The model with a block of separate projections in place of each fused ``nn.MultiheadAttention``."""
    for site in sites:
        block = model.get_submodule(site.path)
        if isinstance(block, nn.MultiheadAttention):
            model = replace_module(model, block, replacement(block, site.present))
    return model


def _why_not_followed(model: nn.Module, wiring: Wiring | None) -> str | None:
    if wiring is None:
        return "its heads cannot be followed from one projection to the next"
    if mixed := wiring.why_mixed():
        return mixed
    every = range(wiring.num_heads)
    weights = (*wiring.of_heads(every), *wiring.read_from(every))
    reasons = (why_not_linear(model, name) for name in weights)
    if reason := next((reason for reason in reasons if reason is not None), None):
        return reason
    ties = tied(model, weights)
    return f"{ties[0]}: untie them first, or change neither" if ties else None


def _problems(model: nn.Module, inputs: Inputs, plan: HeadPlan, expected: Sequence[Tensor]) -> list[str]:
    try:
        found = {path: block.site.present for path, block in surveyed(model, inputs).blocks.items()}
        made = outputs(model, inputs)
    except SurgeryError as error:
        return [f"after the change, {problem}" for problem in error.problems]
    wrong = [
        f"{path or 'the model'}: {wanted} should be left, but it computes {found.get(path, 'no attention')}"
        for path, wanted in plan
        if found.get(path) != wanted
    ]
    gap = None if wrong else furthest_apart(made, expected)
    return wrong if gap is None else [f"after the change, the output is off by {gap:.3g} from what it should be"]
