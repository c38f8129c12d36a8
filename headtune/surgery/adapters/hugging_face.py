"""Attention of transformers' models: hand-written blocks with habits of their own."""

import copy
from collections.abc import Iterator

from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.handwritten import Handwritten

_GROUP_SIZE = "num_key_value_groups"
_ROTATED = "rotary_ndims"


class HuggingFace(Handwritten):
    """Besides what hand-written blocks need: grouped heads where a block never had them, and rotary tables.

    Classes are told by their module's name, so that transformers itself is not imported.
    """

    def matches(self, module: nn.Module) -> bool:
        """Every module of a transformers model."""
        return any(cls.__module__.startswith("transformers.models.") for cls in type(module).__mro__)

    def why_no_groups(self, block: nn.Module) -> str | None:
        """Their attention functions repeat keys by ``num_key_value_groups``, which any block may be given."""
        return None

    def sized_by_head_dim(self, block: nn.Module, site: AttentionSite) -> Iterator[str]:
        """``rotary_ndims`` follows head_dim, and so does the table of rotations."""
        return (reason for reason in super().sized_by_head_dim(block, site) if not reason.startswith(_ROTATED))

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """Set the attributes, among them the group size and how many features of a head are rotated."""
        super().rehead(model, site, wanted)
        block = model.get_submodule(site.path)
        group_size = wanted.num_heads // wanted.num_kv_heads
        if group_size != site.group_size:
            setattr(block, _GROUP_SIZE, group_size)
        rotated = vars(block).get(_ROTATED)
        if isinstance(rotated, int):
            setattr(block, _ROTATED, rotated * wanted.head_dim // site.head_dim)

    def settle(self, model: nn.Module) -> None:
        """Rebuild the rotary tables for the head_dim of the blocks that share them, where those agree on one."""
        for parent in model.modules():
            for name, child in list(parent.named_children()):
                if type(child).__name__.endswith("RotaryEmbedding") and self.matches(child):
                    dims = {dim for block in parent.modules() if (dim := _head_dim(block)) is not None}
                    if len(dims) == 1:
                        _rebuild(parent, name, child, dims.pop())


def _head_dim(block: nn.Module) -> int | None:
    """The head_dim that a transformers attention block says it has."""
    held = vars(block)
    dim = held.get("head_dim", held.get("head_size"))
    return dim if type(block).__name__.endswith("Attention") and isinstance(dim, int) else None


def _rebuild(parent: nn.Module, name: str, rotary: nn.Module, head_dim: int) -> None:
    config = copy.copy(vars(rotary).get("config"))
    before = dict(rotary.named_buffers()).get("inv_freq")
    if config is None or before is None:
        return
    vars(config).update(head_dim=head_dim, num_attention_heads=config.hidden_size // head_dim)
    rebuilt = type(rotary)(config).to(before.device)
    if dict(rebuilt.named_buffers())["inv_freq"].shape != before.shape:
        setattr(parent, name, rebuilt)
