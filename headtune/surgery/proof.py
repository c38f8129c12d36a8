"""Edits of trained weights that are compared, output by output, with what they must compute."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

import headtune.surgery.adapters.peft as peft
from headtune.errors import SurgeryError, in_words
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import adapters
from headtune.surgery.adapters.ownership import tied
from headtune.surgery.inputs import Inputs
from headtune.surgery.located import survey
from headtune.surgery.opening import opened, why_not_opened
from headtune.surgery.outputs import Outputs, difference, outputs
from headtune.surgery.probe import ForwardFailed
from headtune.surgery.saving import Earlier, noted
from headtune.surgery.slicing import why_not_sliced
from headtune.surgery.snapshot import Snapshot
from headtune.surgery.standins import stood_in
from headtune.surgery.tables import handed_on, head_tables
from headtune.surgery.transaction import copied
from headtune.surgery.wiring import Followed, Wiring, follow

Edit = Callable[[nn.Module], None]
"""Changes a model whose blocks have projections of their own."""


class Unproven(SurgeryError):
    """An edited model does not do what it must.

    Attributes:
        blamed: paths of the blocks that raised or computed with other counts; empty where no block can be blamed.
    """

    def __init__(self, *problems: str, blamed: Iterable[str] = ()) -> None:
        super().__init__(*problems)
        self.blamed = frozenset(blamed)


_NO_STATISTICS = "or let the model return nothing that depends on its heads but through their output projection"


def followed(
    model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite], *, in_order: bool = False
) -> dict[str, Wiring]:
    """The wiring of the *sites*, and of what else could be followed; the model is left as it was.

    Weights are named as in the model whose *sites* have projections of their own. Heads whose keys or values stand in
    different orders are refused where they must be *in_order*.

    Raises:
        SurgeryError: the heads of a site cannot be told apart, or their projections cannot change (every reason).
    """
    if not sites:
        return {}
    _check([(site, why_not_opened(model, site)) for site in sites])
    if absent := [name for name, parameter in model.named_parameters() if parameter.is_meta]:
        raise SurgeryError(
            f"{absent[0]} is on the meta device (offloaded, or not loaded), one of {len(absent)} such weights; nothing "
            "can be proven without their values: load the whole model first"
        )
    snapshot = Snapshot.of(model)
    try:
        edited = opened(model, sites)
        found = follow(edited, inputs, in_order=in_order)
        _check([(site, _why_not_changed(edited, found, site)) for site in sites])
    finally:
        snapshot.restore()
    return found.wirings


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an edited model must put out.

    Attributes:
        outputs: what that is.
        stood_in: whether the model had other weights for that, which hide less.
    """

    outputs: Outputs
    stood_in: bool


def outputs_after(model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite], edit: Edit) -> Expected:
    """What *model* would put out after *edit*; it is left as it was.

    Where its weights would hide errors, others stand in, unless it does not run with them.
    """
    with stood_in(model, inputs) as (wide, changed):
        if changed:
            try:
                return Expected(outputs=_outputs_after(model, wide, sites, edit), stood_in=True)
            except ForwardFailed:
                pass
    try:
        return Expected(outputs=_outputs_after(model, inputs, sites, edit), stood_in=False)
    except ForwardFailed as failed:
        raise SurgeryError(f"with other weights, {_raised(failed)}; let it run whatever their values") from failed.error


def _outputs_after(model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite], edit: Edit) -> Outputs:
    snapshot = Snapshot.of(model)
    try:
        edited = opened(model, sites)
        edit(edited)
        return outputs(edited, inputs)
    finally:
        snapshot.restore()


def proven(
    model: nn.Module,
    plan: HeadPlan,
    inputs: Inputs,
    sites: Sequence[AttentionSite],
    *,
    edit: Edit,
    expected: Expected,
    copy: bool,
) -> nn.Module:
    """*model*, or a copy of it, after *edit*: with the counts of *plan*, and putting out what was *expected*.

    Raises:
        Unproven: it does something else; everything is as it was then.
    """
    if not copy and any(not site.path and isinstance(model, nn.MultiheadAttention) for site in sites):
        raise SurgeryError("the model is itself the attention block that changes its size: use copy=True")
    target = copied(model) if copy else model
    snapshot, earlier = Snapshot.of(target), Earlier(target)
    try:
        if expected.stood_in:
            with stood_in(target, inputs) as (wide, _):
                _prove(_edited(target, sites, edit), wide, plan, sites, expected.outputs)
        edited = _edited(target, sites, edit)
        _prove(edited, inputs, plan, sites, None if expected.stood_in else expected.outputs)
        return noted(edited, earlier, plan)
    except BaseException:
        snapshot.restore()
        raise


def _edited(model: nn.Module, sites: Sequence[AttentionSite], edit: Edit) -> nn.Module:
    with torch.inference_mode(False):
        edited = opened(model, sites)
        edit(edited)
        for adapter in adapters():
            adapter.settle(edited)
    return edited


def _check(reasons: Sequence[tuple[AttentionSite, str | None]]) -> None:
    problems = [f"{_place(site.path)}: {reason}" for site, reason in reasons if reason is not None]
    if problems:
        raise SurgeryError(*problems)


def _why_not_changed(model: nn.Module, found: Followed, site: AttentionSite) -> str | None:
    wiring = found.wirings.get(site.path)
    if wiring is None:
        return found.reasons.get(site.path, "no attention is seen here when the model runs once more")
    every = range(wiring.num_heads)
    weights = (*wiring.of_heads(every), *wiring.read_from(every))
    reasons = (why_not_sliced(model, name) for name in weights)
    if reason := next((reason for reason in reasons if reason is not None), None):
        return reason
    paths = dict.fromkeys(name.rpartition(".")[0] for name in weights)
    held = [name for name, _ in model.named_parameters() if name.rpartition(".")[0] in paths]
    ties = tied(model, held)
    return f"{ties[0]}: untie them first, or change neither" if ties else None


def _prove(
    model: nn.Module, inputs: Inputs, plan: HeadPlan, sites: Sequence[AttentionSite], expected: Outputs | None
) -> None:
    """Refuse a *model* that does not run, has other counts than *plan*, or puts out something else than *expected*."""
    try:
        made = outputs(model, inputs)
        found = {path: block.site.present for path, block in survey(model, inputs).blocks.items()}
    except ForwardFailed as failed:
        raise _not_running(model, plan, sites, failed) from failed.error
    except SurgeryError as error:
        raise Unproven(*(f"after the change, {problem}" for problem in error.problems)) from error
    wrong = {
        path: f"{_place(path)}: {wanted} should be left, but it computes {found.get(path, 'no attention')}; "
        "let forward take its counts from attributes of the module"
        for path, wanted in plan
        if found.get(path) != wanted
    }
    if wrong:
        raise Unproven(*wrong.values(), blamed=wrong)
    apart = None if expected is None else difference(made, expected)
    if apart is not None:
        changed = ", ".join(f"{_place(site.path)} with {plan[site.path]}" for site in sites)
        raise Unproven(f"{changed}: {apart}; leave the block as it is, {_NO_STATISTICS}")


def _not_running(model: nn.Module, plan: HeadPlan, sites: Sequence[AttentionSite], failed: ForwardFailed) -> Unproven:
    """What keeps each changed block from running that was running when the model raised; all, if none was."""
    blamed = [site for site in sites if _inside(failed.path, site.path)] or sites
    problems = (
        f"{_place(site.path)} with {plan[site.path]}: forward raises {in_words(failed.error)}; "
        f"{_still_sized(model, plan, site)}"
        for site in blamed
    )
    return Unproven(*problems, blamed=(site.path for site in blamed))


def _still_sized(model: nn.Module, plan: HeadPlan, site: AttentionSite) -> str:
    """What in a block still counts the heads that it had."""
    block = model.get_submodule(site.path)
    if peft.holds_adapters(block):
        return f"its adapters may be made for {site.num_heads} heads: {peft.REMEDY}"
    if (handed := handed_on(block, plan, site)) is not None:
        return handed
    tables = head_tables(block, site.num_heads)
    if tables is not None:
        return f"{tables} is a table for {site.num_heads} heads, of which none can go: leave them as they are"
    return (
        f"something still counts {site.num_heads} heads, such as a number written into forward, a mask for every head, "
        "or biases like those of ALiBi: let forward read the count from the block, or leave the block as it is"
    )


def _raised(failed: ForwardFailed) -> str:
    return f"forward raises {in_words(failed.error)}" + (f" in {failed.path}" if failed.path else "")


def _inside(path: str, block: str) -> bool:
    return not block or path == block or path.startswith(f"{block}.")


def _place(path: str) -> str:
    return path or "the model"
