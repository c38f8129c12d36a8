"""``headtune.nn.HeadedAttention``: what an earlier plan, or the person, has put into the model."""

from torch import nn

from headtune.heads.count import HeadCount
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention
from headtune.surgery.adapters.ownership import replace_module, why_not_replaced
from headtune.surgery.adapters.replacement import replacement
from headtune.surgery.probe import AttentionCall, Projections


class Headed:
    """Re-heads in place; resizes by a new block of the same kind."""

    reads_projections = False

    def matches(self, module: nn.Module) -> bool:
        """Every ``HeadedAttention``."""
        return isinstance(module, HeadedAttention)

    def num_kv_heads(self, model: nn.Module, path: str, call: AttentionCall) -> int:
        """As the module says: its key projection is built from that number."""
        return _block(model, path).num_kv_heads

    def why_not_rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> str | None:
        """Always possible."""
        return None

    def why_not_resize(
        self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount
    ) -> str | None:
        """Computed and tied weights cannot be replaced."""
        return why_not_replaced(model, _block(model, site.path), site.path)

    def rehead(self, model: nn.Module, site: AttentionSite, wanted: HeadCount) -> None:
        """Set the three counts, which ``forward`` reads."""
        block = _block(model, site.path)
        block.num_heads, block.num_kv_heads, block.head_dim = wanted

    def resize(self, model: nn.Module, site: AttentionSite, projections: Projections, wanted: HeadCount) -> nn.Module:
        """Replace the block wherever the model holds it."""
        block = _block(model, site.path)
        return replace_module(model, block, replacement(block, wanted))

    def settle(self, model: nn.Module) -> None:
        """Nothing: the module never takes PyTorch's fused paths."""


def _block(model: nn.Module, path: str) -> HeadedAttention:
    block = model.get_submodule(path)
    assert isinstance(block, HeadedAttention)
    return block
