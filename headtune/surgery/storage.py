"""The memory that tensors lie in."""

import torch
from torch import Tensor


def storage_of(tensor: Tensor) -> int | None:
    """What tells the memory of a tensor from that of others; ``None`` for sparse, meta and wrapping tensors."""
    if type(tensor.data) is not Tensor or tensor.layout is not torch.strided or tensor.is_meta:
        return None
    storage: int = tensor.untyped_storage()._cdata
    return storage
