"""Tables for a certain number of heads: those that a block holds, and those that it is handed."""

import inspect

from torch import nn

from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite, stack_path
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


def handed_on(block: nn.Module, plan: HeadPlan, site: AttentionSite) -> str | None:
    """What blocks of one stack may hand on to each other for all heads, as T5's do, where *plan* makes these differ."""
    names = [name for name in inspect.signature(type(block).forward).parameters if "bias" in name]
    stack = stack_path(site.path)
    counts = {count.num_heads for path, count in plan if stack_path(path) == stack}
    if not names or len(counts) == 1:
        return None
    return (
        f"forward is handed {names[0]}, which one block makes for the heads of all {stack}: "
        "give all of these the same number of heads"
    )
