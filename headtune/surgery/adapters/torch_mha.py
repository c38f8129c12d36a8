"""``nn.MultiheadAttention``, alone and inside ``nn.Transformer``."""

from torch import nn

import headtune.surgery.adapters.peft as peft
from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters.ownership import replace_module, why_not_replaced
from headtune.surgery.adapters.replacement import replacement
from headtune.surgery.probe import AttentionCall, Projections

_OWN = frozenset(
    {
        "in_proj_weight",
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
        "in_proj_bias",
        "bias_k",
        "bias_v",
        "out_proj",
    }
)
"""What every ``nn.MultiheadAttention`` holds."""


class TorchMHA:
    """Re-heads in place; resizes by putting a :class:`headtune.nn.HeadedAttention` in the block's stead.

    ``F.multi_head_attention_forward`` derives the head size from ``embed_dim``, so that the module itself can hold
    neither another width nor grouped heads.
    """

    reads_projections = False

    def matches(self, module: nn.Module) -> bool:
        """Every ``nn.MultiheadAttention`` and subclass."""
        return isinstance(module, nn.MultiheadAttention)

    def num_kv_heads(self, model: nn.Module, path: str, call: AttentionCall) -> int:
        """As many as there are query heads."""
        return call.num_heads

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """Always possible: ``forward`` reads ``num_heads`` afresh on every path."""
        return None

    def why_not_resize(
        self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount
    ) -> str | None:
        """Subclasses with a ``forward`` of their own, computed weights and tied weights cannot be replaced."""
        block = _block(model, site.path)
        if type(block).forward is not nn.MultiheadAttention.forward:
            return (
                f"{type(block).__name__} has a forward of its own, which a replacement would lose; "
                "use nn.MultiheadAttention itself, or headtune.nn.HeadedAttention"
            )
        if more := sorted({*block._parameters, *block._buffers, *block._modules} - _OWN):
            return (
                f"{type(block).__name__} holds {', '.join(more)} too, which a replacement would lose; keep it outside"
            )
        if not isinstance(block.out_proj, nn.Linear):
            kind = f"{type(block.out_proj).__module__}.{type(block.out_proj).__name__}"
            remedy = peft.REMEDY if peft.holds_adapters(block) else "let an nn.Linear stand there"
            return f"its out_proj is a {kind}, not an nn.Linear; {remedy}"
        return why_not_replaced(model, block, site.path)

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """Set ``num_heads``, which decides, and ``head_dim``, which only informs."""
        block = _block(model, site.path)
        block.num_heads, block.head_dim = wanted.num_heads, wanted.head_dim

    def resize(self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount) -> nn.Module:
        """Replace the block wherever the model holds it."""
        block = _block(model, site.path)
        return replace_module(model, block, replacement(block, wanted))

    def settle(self, model: nn.Module) -> None:
        """Turn nested tensors off where a layer could not take them.

        ``nn.TransformerEncoder`` decides that when it is built, from its first layer. A layer with an odd count or
        without the fused kernel would then meet a nested tensor and raise.
        """
        for encoder in model.modules():
            if isinstance(encoder, nn.TransformerEncoder) and encoder.use_nested_tensor:
                encoder.use_nested_tensor = all(_takes_nested(layer) for layer in encoder.layers)


def _takes_nested(layer: nn.Module) -> bool:
    block = layer.self_attn if isinstance(layer, nn.TransformerEncoderLayer) else None
    return isinstance(block, nn.MultiheadAttention) and block.num_heads % 2 == 0


def _block(model: nn.Module, path: str) -> nn.MultiheadAttention:
    block = model.get_submodule(path)
    assert isinstance(block, nn.MultiheadAttention)
    return block
