"""Tables that a block holds for a certain number of heads."""

from torch import nn

from headtune.surgery.adapters.linears import why_not_linear


def head_tables(block: nn.Module, heads: int) -> str | None:
    """Names and shapes of the block's own tables with an entry for each head, as words; None where there are none.

    Linear maps are none: their features are found by following them.
    """
    found = [
        f"{name} {tuple(one.shape)}"
        for name, one in (*block.named_parameters(), *block.named_buffers())
        if one.dim() > 1 and one.is_floating_point() and heads in one.shape and why_not_linear(block, name) is not None
    ]
    return ", ".join(found) or None
