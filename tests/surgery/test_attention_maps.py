"""Recomputed maps give, with the values, what the fused function gave.

B batch, H heads, T queries, S keys, D features per head.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.surgery.attention_maps import multi_head, sdpa_maps
from headtune.surgery.probe.function_call import FunctionCall

B, H, T, S, D = 2, 4, 5, 7, 6
q, k, v = (torch.randn(B, H, length, D, dtype=torch.float64) for length in (T, S, S))
blocked = torch.rand(B, 1, T, S).gt(0.3)
blocked[..., 0] = True
rowless = blocked.clone()
rowless[:, :, 1] = False

CALLS: dict[str, tuple[tuple[Tensor, ...], dict[str, Any]]] = {
    "plain": ((q, k, v), {}),
    "causal": ((q, k, v), {"is_causal": True}),
    "scale": ((q, k, v), {"scale": 0.1}),
    "boolean mask": ((q, k, v), {"attn_mask": blocked}),
    "bias": ((q, k, v), {"attn_mask": torch.randn(T, S, dtype=torch.float64)}),
    "a query without keys": ((q, k, v), {"attn_mask": rowless}),
    "groups": ((q, k[:, :2], v[:, :2]), {"enable_gqa": True}),
    "no batch": ((q[0], k[0], v[0]), {}),
    "one head": ((q[0, 0], k[0, 0], v[0, 0]), {}),
    "positional": ((q, k, v, blocked), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_maps_times_values_is_the_result(name: str) -> None:
    args, kwargs = CALLS[name]
    call = FunctionCall(F.scaled_dot_product_attention, args, kwargs)
    result = call.run()
    assert isinstance(result, Tensor)
    maps = sdpa_maps(call, result)
    assert maps is not None
    assert maps.shape == (*result.shape[:-1], S)
    values = args[2].repeat_interleave(2, 1) if name == "groups" else args[2]
    torch.testing.assert_close(maps @ values, result, rtol=0, atol=1e-14)
    if name == "causal":
        assert maps.triu(1).eq(0).all()
    if name == "a query without keys":
        assert maps[:, :, 1].eq(0).all()


def test_half_precision_is_computed_in_float32_also_under_autocast() -> None:
    args = tuple(tensor.bfloat16() for tensor in (q, k, v))
    call = FunctionCall(F.scaled_dot_product_attention, args, {})
    result = call.run()
    assert isinstance(result, Tensor)
    plain = sdpa_maps(call, result)
    with torch.autocast("cpu", torch.bfloat16):
        cast = sdpa_maps(call, result)
    assert plain is not None
    assert cast is not None
    assert plain.dtype == torch.float32
    assert torch.equal(plain, cast)
    exact = (args[0].double() @ args[1].double().transpose(-2, -1) * D**-0.5).softmax(-1)
    torch.testing.assert_close(plain.double(), exact, rtol=0, atol=1e-6)  # float32


def test_a_call_without_tensors_has_no_maps() -> None:
    assert sdpa_maps(FunctionCall(F.scaled_dot_product_attention, (None, None, None), {}), q) is None


@pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 3}, {"bias": False, "add_zero_attn": True}], ids=str)
def test_pytorchs_block_is_taken_apart(options: dict[str, Any]) -> None:
    block = nn.MultiheadAttention(24, 4, **options).double().eval()
    calls: list[FunctionCall] = []

    class Listen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is F.multi_head_attention_forward:
                calls.append(FunctionCall(func, args, dict(kwargs or {})))
            return func(*args, **(kwargs or {}))

    key = torch.randn(S, B, options.get("kdim", 24), dtype=torch.float64)
    value = torch.randn(S, B, options.get("vdim", 24), dtype=torch.float64)
    query = torch.randn(T, B, 24, dtype=torch.float64)
    with Listen():
        output, _ = block(query, key, value, need_weights=False)
    _, weights = block(query, key, value, average_attn_weights=False)
    maps, outputs = multi_head(calls[0])
    assert torch.equal(maps, weights)
    assert outputs.shape == (B, T, 4, 6)
    torch.testing.assert_close(block.out_proj(outputs.flatten(2)).transpose(0, 1), output, rtol=0, atol=1e-14)
