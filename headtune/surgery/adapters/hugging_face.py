"""Attention of transformers' models: hand-written blocks with habits of their own."""

import copy
import inspect
from collections.abc import Iterator

from torch import Tensor, nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.handwritten import Handwritten

_GROUP_SIZE = "num_key_value_groups"
_ROTATED = "rotary_ndims"
_SPLIT = "split_size"
_BY_LAYER = "scale_attn_by_inverse_layer_idx"


class HuggingFace(Handwritten):
    """Besides what hand-written blocks need: grouped heads where a block never had them, and rotary tables.

    Classes are told by their module's name, so that transformers itself is not imported.
    """

    def matches(self, module: nn.Module) -> bool:
        """Every module of a transformers model."""
        return any(cls.__module__.startswith("transformers.models.") for cls in type(module).__mro__)

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """What keeps hand-written blocks, and norms over all heads or biases for every head."""
        if (reason := super().why_not_rehead(model, site, wanted)) is not None:
            return reason
        block, width = model.get_submodule(site.path), wanted.num_heads * wanted.head_dim
        norms = list(_norms(block, site.width)) if width != site.width else []
        if norms:
            return f"{norms[0]} normalises over the {site.width} features of all heads; hold width instead"
        return None if wanted.num_heads == site.num_heads else _biases_for_every_head(model, block, site)

    def why_no_groups(self, block: nn.Module) -> str | None:
        """Their attention functions repeat keys by ``num_key_value_groups``, which any block may be given.

        The eager ones of families that never had groups do not.
        """
        config = vars(block).get("config")
        if config is not None and _GROUP_SIZE not in vars(block) and config._attn_implementation == "eager":
            return (
                "its eager attention wants as many key/value heads as heads; build the model with "
                "attn_implementation='sdpa', or keep them"
            )
        return None

    def sized_by_head_dim(self, block: nn.Module, site: AttentionSite) -> Iterator[str]:
        """``rotary_ndims`` follows head_dim, and so does the table of rotations; norms of a family's own do not."""
        yield from (reason for reason in super().sized_by_head_dim(block, site) if not reason.startswith(_ROTATED))
        if site.head_dim != site.width:
            for name in _norms(block, site.head_dim):
                yield f"{name} normalises over the {site.head_dim} features of a head; hold head_dim instead"

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """Set the attributes, among them the group size, how much of a head is rotated, and a scale by layer."""
        super().rehead(model, site, wanted)
        block = model.get_submodule(site.path)
        group_size = wanted.num_heads // wanted.num_kv_heads
        if group_size != site.group_size:
            setattr(block, _GROUP_SIZE, group_size)
        rotated = vars(block).get(_ROTATED)
        if isinstance(rotated, int):
            setattr(block, _ROTATED, rotated * wanted.head_dim // site.head_dim)
        if vars(block).get(_BY_LAYER):
            block.scaling = wanted.head_dim**-0.5 / (block.layer_idx + 1)  # type: ignore[operator]
        if _SPLIT in vars(block):
            setattr(block, _SPLIT, _split(block, wanted))

    def settle(self, model: nn.Module) -> None:
        """Rebuild the rotary tables for the head_dim of the blocks that share them, where those agree on one."""
        for parent in model.modules():
            for name, child in list(parent.named_children()):
                if type(child).__name__.endswith("RotaryEmbedding") and self.matches(child):
                    dims = {dim for block in parent.modules() if (dim := _head_dim(block)) is not None}
                    if len(dims) == 1:
                        _rebuild(parent, name, child, dims.pop())


def _split(block: nn.Module, wanted: HeadCount) -> int | tuple[int, int, int]:
    """Where GPT-2 cuts what one projection made: queries, keys and values, or keys and values of cross-attention."""
    width, kv_width = wanted.num_heads * wanted.head_dim, wanted.num_kv_heads * wanted.head_dim
    apart = "q_attn" in block._modules
    return kv_width if apart or kv_width == width else (width, kv_width, kv_width)


def _biases_for_every_head(model: nn.Module, block: nn.Module, site: AttentionSite) -> str | None:
    """A table that one block holds for all self-attention of its class (T5), or slopes that the model makes (BLOOM)."""
    heads = site.num_heads
    for path, one in model.named_modules():
        read = path == site.path or (type(one) is type(block) and site.role != "cross")
        for name, parameter in one.named_parameters() if read else ():
            if "bias" in name and parameter.dim() == 2 and parameter.shape[1] == heads:
                where = "" if path == site.path else f" of {path}"
                return f"{name}{where} is a table of biases for {heads} heads; keep the number of heads"
    config = vars(block).get("config")
    alibi = config is None or getattr(config, "alibi", True)
    if alibi and "alibi" in inspect.signature(type(block).forward).parameters:
        return f"the model makes ALiBi biases for {heads} heads and no others; keep the number of heads"
    return None


def _norms(block: nn.Module, features: int) -> Iterator[str]:
    """Names of the norms of queries or keys that have so many features."""
    for name, module in block.named_children():
        shapes = [tuple(parameter.shape) for parameter in module.parameters()]
        if type(module).__name__.endswith("Norm") and name[0] in "qk" and shapes == [(features,)]:
            yield name


def _head_dim(block: nn.Module) -> int | None:
    """The head_dim that a transformers attention block says it has."""
    held = vars(block)
    dim = held.get("head_dim", held.get("head_size"))
    return dim if type(block).__name__.endswith("Attention") and isinstance(dim, int) else None


def _rebuild(parent: nn.Module, name: str, rotary: nn.Module, head_dim: int) -> None:
    config = copy.copy(vars(rotary).get("config"))
    before = _frequencies(rotary)
    if config is None or not before:
        return
    vars(config)["num_attention_heads"] = config.hidden_size // head_dim
    if vars(config).get("head_dim") is not None:
        vars(config)["head_dim"] = head_dim
    rebuilt = type(rotary)(config).to(next(iter(before.values())).device)
    if any(one.shape != before[key].shape for key, one in _frequencies(rebuilt).items()):
        setattr(parent, name, rebuilt)


def _frequencies(rotary: nn.Module) -> dict[str, Tensor]:
    """The frequencies of a table of rotations, of which ModernBERT and Gemma 3 have some for each kind of layer."""
    return {name: buffer for name, buffer in rotary.named_buffers() if name.endswith("inv_freq")}
