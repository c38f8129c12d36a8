"""Attention modules that somebody wrote: nn.Linear projections and attributes that say how many heads there are."""

import re
from collections.abc import Iterator

from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.attributes import held, set_counts
from headtune.surgery.adapters.layout import Layout, kv_heads_by_rows, rows, why_not
from headtune.surgery.adapters.linears import resize
from headtune.surgery.adapters.per_head import numbers_for_heads
from headtune.surgery.probe import AttentionCall, Projections

_PARTIAL_ROTARY = re.compile(r"rot.*(dim|size|feature)|(dim|size|feature).*rot")


class Handwritten:
    """Sets the attributes that hold the counts, and resizes the projections that the probe saw.

    Which attributes those are is a guess by name and present value. It is safe because the model is watched again
    afterwards: a block that computes other counts than the plan's is refused.

    Subclass it for blocks of one's own, and write only what is different.

    Example:
        >>> class ChoirAdapter(Handwritten):
        ...     def matches(self, module: nn.Module) -> bool:
        ...         return isinstance(module, Choir)
        ...     def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        ...         return None if wanted.num_kv_heads == wanted.num_heads else "voices cannot share keys"
        ...     def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        ...         model.get_submodule(site.path).voices = wanted.num_heads
        >>> register_adapter(ChoirAdapter())
    """

    reads_projections = True

    def matches(self, module: nn.Module) -> bool:
        """Any module."""
        return True

    def num_kv_heads(self, model: nn.Module, path: str, call: AttentionCall) -> int:
        """By the rows of the key projection, else as the probe saw them."""
        return kv_heads_by_rows(model, call) or call.num_kv_heads

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """No attribute to set, or something sized by head_dim that a new head_dim would not fit."""
        block = model.get_submodule(site.path)
        quantities = held(block, site.present)
        if not quantities & {"heads", "head_dim"}:
            return (
                f"{type(block).__name__} has no attribute that holds its {site.num_heads} heads or their "
                f"{site.head_dim} features; store them, as in self.num_heads, and let forward read them there"
            )
        if wanted.num_heads // wanted.num_kv_heads != site.group_size and not quantities & {"kv_heads", "group_size"}:
            return self.why_no_groups(block)
        numbers = numbers_for_heads(block, site.num_heads) if wanted.num_heads != site.num_heads else None
        if numbers is not None:
            return (
                f"{numbers} has a number for each of {site.num_heads} heads; make it in forward, or keep their number"
            )
        if wanted.head_dim != site.head_dim:
            return next(self.sized_by_head_dim(block, site), None)
        return None

    def why_no_groups(self, block: nn.Module) -> str | None:
        """Why a block that says nothing of key/value heads cannot share them."""
        return (
            f"{type(block).__name__} has no attribute that holds its key/value heads; store them, as in "
            "self.num_kv_heads, and let forward repeat each for the heads that share it, or merge those of trained "
            "weights by merge_kv, which repeats them"
        )

    def sized_by_head_dim(self, block: nn.Module, site: AttentionSite) -> Iterator[str]:
        """Reasons why the block cannot take another head_dim."""
        for name, module in block.named_modules():
            sized = isinstance(module, nn.LayerNorm | nn.RMSNorm) and module.normalized_shape == (site.head_dim,)
            if sized and site.head_dim != site.embed_dim:
                yield f"{name} normalises over the {site.head_dim} features of a head; hold head_dim instead"
            for attribute, value in vars(module).items():
                if isinstance(value, int) and _PARTIAL_ROTARY.search(attribute.lower()):
                    yield f"{attribute}={value} fixes how many of a head's features are rotated; hold head_dim instead"

    def why_not_resize(
        self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount
    ) -> str | None:
        """What re-heading needs, and projections that are plain ``nn.Linear`` of the expected sizes."""
        return self.why_not_rehead(model, site, wanted) or why_not(model, site, projections)

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """Set the attributes."""
        set_counts(model.get_submodule(site.path), site.present, wanted)

    def resize(self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount) -> nn.Module:
        """Resize the projections and set the attributes."""
        layout = Layout.of(projections)
        for name, part in layout.parts.items():
            resize(model, name, made=rows(part, wanted))
        resize(model, layout.out, read=wanted.num_heads * wanted.head_dim)
        self.rehead(model, site, wanted)
        return model

    def settle(self, model: nn.Module) -> None:
        """Nothing."""
