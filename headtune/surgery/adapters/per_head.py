"""Tensors of a block's own that have a number for each head."""

import re

from torch import Tensor, nn

_OF_POSITIONS = re.compile(r"freq|rot|cos|sin|theta|pos")


def numbers_for_heads(block: nn.Module, heads: int) -> str | None:
    """Name and shape of a tensor with one number for each head; None where there is none.

    Such as the slopes of ALiBi, a temperature, a gain. Read in part, it fits fewer heads, with the numbers of others.
    """
    for path, module in block.named_modules():
        if heads == 1 or type(module).__module__.startswith("torch.nn."):
            continue
        for name, one in (*module._parameters.items(), *module._buffers.items(), *vars(module).items()):
            if _is_for_heads(one, heads) and not _OF_POSITIONS.search(name.lower()):
                return f"{path}.{name}".lstrip(".")
    return None


def _is_for_heads(one: object, heads: int) -> bool:
    return (
        isinstance(one, Tensor)
        and one.is_floating_point()
        and tuple(size for size in one.shape if size > 1) == (heads,)
    )
