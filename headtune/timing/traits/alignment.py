"""Whether head dimensions fit the device, whose kernels compute in blocks of features."""

import torch

from headtune.heads import HeadPlan
from headtune.timing.protocol import LatencyProtocol

VECTOR = 8
"""Features that vector units and the loads of fused kernels take at once: kernels pad to it, or a slower one runs."""

TENSOR_CORES = 64
"""Features of the tiles that FlashAttention on tensor cores is tuned for (Dao, *FlashAttention-2*, 2023)."""


def wanted_multiples(protocol: LatencyProtocol) -> tuple[int, ...]:
    """Of what a head dimension should be a multiple under a resolved protocol, the least first.

    8 everywhere; 64 too on a GPU whose tensor cores compute in the protocol's dtype: half precisions from compute
    capability 7.0 on, bfloat16 and, where TF32 is allowed, float32 from 8.0 on.
    """
    return (VECTOR, TENSOR_CORES) if _on_tensor_cores(protocol) else (VECTOR,)


def unaligned(plan: HeadPlan, multiples: tuple[int, ...]) -> dict[str, int]:
    """Path → the least of *multiples* that its head dimension is no multiple of; sites that fit are left out."""
    broken = {path: [one for one in multiples if count.head_dim % one] for path, count in plan}
    return {path: least[0] for path, least in broken.items() if least}


def _on_tensor_cores(protocol: LatencyProtocol) -> bool:
    if not protocol.device.startswith("cuda"):
        return False
    major, _ = torch.cuda.get_device_capability(protocol.device)
    dtype = protocol.autocast or protocol.dtype
    if dtype == "float16":
        return major >= 7
    return major >= 8 and (dtype == "bfloat16" or torch.get_float32_matmul_precision() != "highest")
