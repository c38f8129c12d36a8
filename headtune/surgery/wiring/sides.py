"""Taking one attention apart, so that its queries, its keys and its values can each be followed alone.

T queries, S keys, D features per head; L all leading dimensions, those of batch and heads.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.fused import given_to_sdpa
from headtune.surgery.probe.operations import Product


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """One attention, taken apart.

    Attributes:
        q: ``(L, …)`` with the leading dimensions made one; depends on the queries only.
        k: the same for the keys.
        v: the output's shape, depends on the values only.
        values: ``(…, S, D)`` as they are weighted.
        key_part: *k* as if the keys had only those of the D features that a mask lets through.
        value_part: the same of *v* for values.
        spread: from a number for each of ``(L)`` to the output's shape.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    values: Tensor
    key_part: Callable[[Tensor], Tensor]
    value_part: Callable[[Tensor], Tensor]
    spread: Callable[[Tensor], Tensor]


def sides_of_sdpa(call: FunctionCall) -> Sides | None:
    """The sides of a ``scaled_dot_product_attention`` call."""
    operands = given_to_sdpa(call.args, call.kwargs)
    if operands is None:
        return None
    query, key, value = operands
    leading = query.shape[:-2]
    if key.dim() > 2 and leading and key.shape[-3] not in (1, leading[-1]):
        group = leading[-1] // key.shape[-3]
        key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
    key, value = (one.expand(*leading, *one.shape[-2:]) for one in (key, value))
    shape = (*leading, query.shape[-2], value.shape[-1])

    def spread(labels_L: Tensor) -> Tensor:
        return labels_L.reshape(*leading, 1, 1).expand(shape).to(query.dtype).clone()

    def key_part(mask_D: Tensor) -> Tensor:
        return _flat(key * mask_D)

    def value_part(mask_D: Tensor) -> Tensor:
        # The output has one row for each query; values have one for each key.
        return (value * mask_D).sum(-2, keepdim=True).expand(shape)

    v = value.sum(-2, keepdim=True).expand(shape)
    return Sides(
        q=_flat(query), k=_flat(key), v=v, values=value, key_part=key_part, value_part=value_part, spread=spread
    )


def sides_of_product(scoring: FunctionCall, weighting: FunctionCall, weights: Tensor) -> Sides | None:
    """The sides of attention that is written out.

    Args:
        scoring: the product of queries and keys.
        weighting: the product of attention weights and values.
        weights: which operand of *weighting* holds the attention weights.
    """
    made, given = scoring.product(), weighting.product()
    if made is None or given is None:
        return None
    values = given.right if weights is given.left else given.left
    # One tensor may be both: queries and keys are then followed together.
    shared = made.left is made.right
    q = scoring.again({} if shared else {made.right: made.right.detach()})
    k = q if shared else scoring.again({made.left: made.left.detach()})
    if _flat(q).shape[0] != _flat(weights).shape[0]:
        return None

    def spread(labels_L: Tensor) -> Tensor:
        marked = torch.zeros_like(weights)
        marked[..., 0] = labels_L.reshape(*weights.shape[:-2], 1).to(weights.dtype)
        return weighting.again({weights: marked, values: torch.ones_like(values)}).detach()

    dim = _summed(made)

    def key_part(mask_D: Tensor) -> Tensor:
        if shared or dim is None:
            return _flat(k)
        left = made.left.detach()
        return _flat(scoring.again({made.left: left * mask_D.reshape(-1, *[1] * (-1 - dim))}))

    def value_part(mask_D: Tensor) -> Tensor:
        return weighting.again({weights: weights.detach(), values: values * mask_D})

    v = weighting.again({weights: weights.detach()})
    return Sides(q=_flat(q), k=_flat(k), v=v, values=values, key_part=key_part, value_part=value_part, spread=spread)


def _summed(product: Product) -> int | None:
    """The dimension of the left factor, counted from behind, over which a product sums."""
    if product.equation is None:
        return -1
    terms, _, result = product.equation.partition("->")
    left, _, right = terms.partition(",")
    letters = [letter for letter in left if letter in right and letter not in result and letter != "."]
    if len(letters) != 1:
        return None
    behind = left[left.index(letters[0]) :]
    return None if "." in behind else -len(behind)


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, *tensor.shape[-2:])
