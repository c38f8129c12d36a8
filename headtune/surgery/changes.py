"""What a plan changes in a model, and why some of it may be impossible."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import FALLBACK, SECOND_FALLBACK, Adapter, adapter_for
from headtune.surgery.original import Original
from headtune.surgery.probe import Projections


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Other counts for one site.

    Attributes:
        site: the site as it is.
        wanted: its new counts.
        adapter: who makes the change.
        projections: the weights involved, where they change shape and the adapter needs to know them.
    """

    site: AttentionSite
    wanted: HeadCount
    adapter: Adapter
    projections: Projections

    @property
    def resizes(self) -> bool:
        """Whether a projection changes its shape."""
        return _widths(self.wanted) != _widths(self.site.present)

    def why_not(self, model: nn.Module) -> str | None:
        """Why the change cannot be made, as a sentence; None when nothing speaks against it."""
        if self.resizes:
            reason = self.adapter.why_not_resize(model, self.site, self.projections, self.wanted)
        else:
            reason = self.adapter.why_not_rehead(model, self.site, self.wanted)
        return None if reason is None else f"{self.site.path or 'the model'}: {reason}"

    def make(self, model: nn.Module) -> nn.Module:
        """Edit *model*, and return it, or what stands in its place."""
        if self.resizes:
            return self.adapter.resize(model, self.site, self.projections, self.wanted)
        self.adapter.rehead(model, self.site, self.wanted)
        return model


def changes(original: Original, plan: HeadPlan, sites: Sequence[AttentionSite]) -> tuple[Change, ...]:
    """The changes that *plan* asks for; sites that stay as they are have none."""
    found = []
    for site in sites:
        wanted = plan[site.path]
        if wanted == site.present:
            continue
        adapter = adapter_for(original.model.get_submodule(site.path))
        needed = adapter.reads_projections and _widths(wanted) != _widths(site.present)
        projections = original.projections(site.path) if needed else Projections()
        found.append(Change(site=site, wanted=wanted, adapter=adapter, projections=projections))
    return tuple(found)


def second_try(model: nn.Module, failed: Sequence[Change], blamed: frozenset[str]) -> tuple[Change, ...] | None:
    """The same changes, but made in another way where a block like the blamed ones did not take its new size.

    Args:
        model: the model, as it was.
        failed: the changes that were made.
        blamed: paths of the blocks that raised or computed something else.

    Returns:
        The changes to try next; None where no other way is left.
    """
    classes = {type(model.get_submodule(path)) for path in blamed}
    other = tuple(
        replace(change, adapter=SECOND_FALLBACK)
        if change.adapter is FALLBACK and change.resizes and type(model.get_submodule(change.site.path)) in classes
        else change
        for change in failed
    )
    return None if other == tuple(failed) else other


def _widths(count: HeadCount) -> tuple[int, int]:
    return count.num_heads * count.head_dim, count.num_kv_heads * count.head_dim
