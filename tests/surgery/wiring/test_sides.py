"""Each side of an attention depends on its own operand, and on no other.

B batch, H heads, K key/value heads, T queries, S keys, D features per head.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.wiring.sides import Sides, sides_of_product, sides_of_sdpa

B, H, K, T, S, D = 2, 4, 2, 3, 5, 6


def operands(kv_heads: int = H) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((B, H, T, D), (B, kv_heads, S, D), (B, kv_heads, S, D))
    q, k, v = (torch.randn(shape, requires_grad=True) for shape in shapes)
    return q, k, v


def depends(tensor: Tensor, on: tuple[Tensor, ...]) -> list[bool]:
    gradients = torch.autograd.grad(tensor.sum(), on, retain_graph=True, allow_unused=True)
    return [gradient is not None and bool(gradient.any()) for gradient in gradients]


def check(sides: Sides | None, on: tuple[Tensor, ...], out: Tensor) -> None:
    assert sides is not None
    assert depends(sides.q, on) == [True, False, False]
    assert depends(sides.k, on) == [False, True, False]
    assert depends(sides.v, on) == [False, False, True]
    assert sides.q.shape[0] == sides.k.shape[0] == B * H
    assert sides.v.shape == out.shape
    labels = sides.spread(torch.arange(B * H))
    assert labels.shape == out.shape
    assert torch.equal(labels.flatten(0, 1)[:, 0, 0], torch.arange(B * H, dtype=labels.dtype))
    assert torch.equal(labels, labels[..., :1, :1].expand_as(labels))


def test_sdpa() -> None:
    q, k, v = operands()
    out = F.scaled_dot_product_attention(q, k, v)
    check(sides_of_sdpa(FunctionCall(F.scaled_dot_product_attention, (q, k), {"value": v})), (q, k, v), out)


def test_sdpa_with_groups_has_a_key_for_every_query_head() -> None:
    for kv_heads in (K, 1):
        q, k, v = operands(kv_heads)
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        sides = sides_of_sdpa(FunctionCall(F.scaled_dot_product_attention, (q, k, v), {"enable_gqa": True}))
        check(sides, (q, k, v), out)
        assert sides is not None
        for head in range(H):
            (gradient,) = torch.autograd.grad(sides.k[head].sum(), k, retain_graph=True)
            assert gradient[0].flatten(1).any(1).nonzero().flatten().tolist() == [head * kv_heads // H]


def test_a_call_that_is_no_attention_has_no_sides() -> None:
    assert sides_of_sdpa(FunctionCall(F.scaled_dot_product_attention, (torch.ones(2),), {})) is None


def test_written_out() -> None:
    q, k, v = operands()
    transposed = k.mT
    scoring = FunctionCall(torch.matmul, (q, transposed), {})
    weights = (q @ transposed).softmax(-1)
    check(sides_of_product(scoring, FunctionCall(torch.matmul, (weights, v), {}), weights), (q, k, v), weights @ v)


def test_written_out_with_the_heads_merged_in_between() -> None:
    q, k, v = operands()
    transposed = k.mT
    scoring = FunctionCall(torch.matmul, (q, transposed), {})
    weights, values = (q @ transposed).softmax(-1).flatten(0, 1), v.flatten(0, 1)
    sides = sides_of_product(scoring, FunctionCall(torch.bmm, (weights, values), {}), weights)
    assert sides is not None
    assert sides.spread(torch.arange(B * H)).shape == (B * H, T, D)
    assert depends(sides.q, (q, k, v)) == [True, False, False]


def test_an_extra_key_is_no_hindrance() -> None:
    q, k, v = operands()
    transposed = k.mT
    weights = torch.cat([q @ transposed, torch.zeros(B, H, T, 1)], -1).softmax(-1)
    values = torch.cat([v, torch.zeros(B, H, 1, D)], -2)
    scoring, weighting = (
        FunctionCall(torch.matmul, (q, transposed), {}),
        FunctionCall(torch.matmul, (weights, values), {}),
    )
    check(sides_of_product(scoring, weighting, weights), (q, k, v), weights @ values)


def test_einsum_may_put_the_heads_last() -> None:
    q, k, v = operands()
    scoring = FunctionCall(torch.einsum, ("bhtd,bhsd->bhts", q, k), {})
    weights = scoring.run().softmax(-1)  # type: ignore[attr-defined]
    weighting = FunctionCall(torch.einsum, ("bhts,bhsd->bthd", weights, v), {})
    sides = sides_of_product(scoring, weighting, weights)
    assert sides is not None
    labels = sides.spread(torch.arange(B * H))
    assert torch.equal(labels[:, 0, :, 0].flatten(), torch.arange(B * H, dtype=labels.dtype))


def test_one_tensor_as_queries_and_keys_is_followed_as_both() -> None:
    q, _, v = operands()
    scoring = FunctionCall(torch.einsum, ("bhid,bhjd->bhij", q, q), {})
    weights = scoring.run().softmax(-1)  # type: ignore[attr-defined]
    weighting = FunctionCall(torch.matmul, (weights, v[..., :T, :]), {})
    sides = sides_of_product(scoring, weighting, weights)
    assert sides is not None
    assert depends(sides.q, (q, v)) == depends(sides.k, (q, v)) == [True, False]


def test_weights_of_other_leading_dimensions_have_no_sides() -> None:
    q, k, v = operands()
    scoring = FunctionCall(torch.matmul, (q, k.mT), {})
    weights = torch.randn(B, T, S)
    assert sides_of_product(scoring, FunctionCall(torch.matmul, (weights, v[:, 0]), {}), weights) is None
