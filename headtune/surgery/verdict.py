"""Watching a changed model and comparing it with the plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isclose

from torch import nn

from headtune.errors import in_words
from headtune.heads.plan import HeadPlan
from headtune.surgery.adapters.scales import rescaled
from headtune.surgery.changes import Change
from headtune.surgery.located import Survey, survey
from headtune.surgery.original import Original
from headtune.surgery.probe import ForwardFailed
from headtune.surgery.tables import handed_on, head_tables

_NEAR = 1e-3  # a scale may be stored in half precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a changed model computes what its plan says.

    Attributes:
        problems: what it does instead, one sentence each; empty when it does.
        blamed: paths of the blocks concerned.
    """

    problems: tuple[str, ...] = ()
    blamed: frozenset[str] = frozenset()


def verdict(model: nn.Module, plan: HeadPlan, made: Sequence[Change], original: Original) -> Verdict:
    """Run *model*, to which the changes were made, and judge it.

    Raises:
        SurgeryError: it computes no attention any more.
    """
    try:
        found = survey(model, original.inputs)
    except ForwardFailed as failed:
        return _not_running(model, plan, failed, made)
    wrong = dict(
        [*_wrong_rotations(found, made, original), *_wrong_scales(found, made, original), *_wrong_counts(found, plan)]
    )
    if not wrong and found.nan and not original.survey.nan:
        asked = ", ".join(f"{_place(change.site.path)} with {change.wanted}" for change in made)
        return Verdict(problems=(f"{asked}: the output is not a number any more; {_REMEDY}",))
    return Verdict(
        problems=tuple(f"{_place(path)}: {problem}" for path, problem in wrong.items()), blamed=frozenset(wrong)
    )


_REMEDY = (
    "let forward take every size from attributes for the head counts, such as self.num_heads and self.head_dim, "
    "and reshape its output to num_heads * head_dim"
)


def _not_running(model: nn.Module, plan: HeadPlan, failed: ForwardFailed, made: Sequence[Change]) -> Verdict:
    """Blame the block that was running, or else all that were changed."""
    blamed = [change for change in made if _inside(failed.path, change.site.path)] or made
    asked = ", ".join(f"{_place(change.site.path)} with {change.wanted}" for change in blamed)
    reason = next((reason for change in blamed if (reason := _fixed_heads(model, plan, change)) is not None), _REMEDY)
    return Verdict(
        problems=(f"{asked}: forward raises {in_words(failed.error)}; {reason}",),
        blamed=frozenset(change.site.path for change in blamed),
    )


def _fixed_heads(model: nn.Module, plan: HeadPlan, change: Change) -> str | None:
    """What goes on counting the heads that a block had."""
    block, heads = model.get_submodule(change.site.path), change.site.num_heads
    if (handed := handed_on(block, plan, change.site)) is not None:
        return handed
    tables = head_tables(block, heads) if change.wanted.num_heads != heads else None
    return None if tables is None else f"{tables} is a table for {heads} heads; keep the number of heads"


def _wrong_counts(found: Survey, plan: HeadPlan) -> Iterator[tuple[str, str]]:
    for path, wanted in plan:
        block = found.blocks.get(path)
        if block is None:
            yield path, "after the change no attention is seen here any more"
        elif block.site.present != wanted:
            yield (
                path,
                f"the plan asks for {wanted}, but after the change it computes {block.site.present}; "
                "let forward take its counts from attributes of the module, and from nowhere else",
            )
    for path in found.blocks:
        if path not in plan.paths:
            yield path, "after the change another attention block is seen here"


def _wrong_scales(found: Survey, made: Sequence[Change], original: Original) -> Iterator[tuple[str, str]]:
    for change in made:
        path, old, new = change.site.path, change.site.head_dim, change.wanted.head_dim
        block = found.blocks.get(path)
        if block is None or old == new or isclose(block.call.scale, new**-0.5, rel_tol=_NEAR):
            continue
        expected = rescaled(original.scale(path), old, new, tolerance=_NEAR)
        by_layer = original.scale(path) * (old / new) ** 0.5  # divided by something else as well
        if not any(isclose(block.call.scale, sound, rel_tol=_NEAR) for sound in (expected, by_layer)):
            yield (
                path,
                f"its scores are still scaled by {block.call.scale:.4g}, where {new} features per head need "
                f"{expected:.4g}; let forward compute the scale, or store it as self.scale",
            )


def _wrong_rotations(found: Survey, made: Sequence[Change], original: Original) -> Iterator[tuple[str, str]]:
    """A table of rotary positions that did not follow head_dim may run in silence, rotating a part of a head."""
    for change in made:
        path, old, new = change.site.path, change.site.head_dim, change.wanted.head_dim
        rotated = found.blocks[path].call.rotated if path in found.blocks else 0
        if old != new and rotated and rotated == original.rotated(path):
            yield (
                path,
                f"its positions rotate {rotated} of a head's {new} features, as of {old} before; let forward take the "
                "size of its rotary table from head_dim, give every block that shares the table the same head_dim, "
                "or hold head_dim instead",
            )


def _inside(path: str, block: str) -> bool:
    return not block or path == block or path.startswith(f"{block}.")


def _place(path: str) -> str:
    return path or "the model"
