"""Penalties that keep heads apart, to be added to a loss: the smaller, the more different the heads.

They are scalars, computed in float32 at least, of weights as ``nn.Linear`` holds them (one row a feature) or of what
flows through a forward pass.

B batch, T queries, S keys, H heads, G key heads, D features per head, E model width, F width of the keys that come in.
"""

import torch
from torch import Tensor

from headtune.errors import InputError
from headtune.nn.operands import inverse_root, mean_over, misshapen, uncountable, units, widened


def score_norm(q_HDE: Tensor, k_GDF: Tensor) -> Tensor:
    """How large heads' scores can grow: the mean over heads of ``||W_q^T W_k||_F``, the bilinear form of a score.

    It compares no heads, but keeps each from growing so sharp that its softmax no longer learns to look elsewhere.
    Computed from the ``(D, D)`` Grams of both projections, not from an ``(E, F)`` matrix.

    References:
        Zhai et al., Stabilizing Transformer Training by Preventing Attention Entropy Collapse, ICML 2023 (the larger
        the spectral norm of that form, the lower the entropy of attention can fall; this norm is no smaller).

    Args:
        q_HDE: weights of the query projection.
        k_GDF: weights of the key projection; with fewer heads, each serves H / G neighbouring query heads.

    Returns:
        A scalar, 0 at least, in the unit of a product of weights.

    Raises:
        InputError: D differs, or G does not divide H.
    """
    problems = misshapen("score_norm", q_HDE=q_HDE, k_GDF=k_GDF)
    heads, groups = q_HDE.shape[0], k_GDF.shape[0]
    if not problems and (groups == 0 or heads % groups):
        problems.append(f"score_norm: {heads} heads cannot share {groups} key heads; choose a divisor of {heads}")
    if problems:
        raise InputError(*problems)
    with widened(q_HDE, k_GDF) as (q, k):
        q_HDD, k_GDD = q @ q.mT, k @ k.mT
        k_HDD = k_GDD.repeat_interleave(heads // groups, dim=0)
        squares_H = (q_HDD * k_HDD).sum((1, 2))  # ||Q^T K||² = tr(Q Q^T K K^T)
        return (squares_H * inverse_root(squares_H)).mean()


def projection_overlap(w_HDE: Tensor) -> Tensor:
    """How much of the model's width heads read in common: the mean over pairs of heads of the overlap of their rows.

    The overlap of two heads is ``||W_i W_j^T||_F² / (||W_i W_i^T||_F ||W_j W_j^T||_F)``, the cosine of ``W_i^T W_i``
    and ``W_j^T W_j`` and so linear CKA without centring: 0 where the row spaces are orthogonal, 1 where the weights are
    equal up to their scale and a rotation within the head. It takes one ``(HD, HD)`` product.

    References:
        Li et al., Multi-Head Attention with Disagreement Regularization, EMNLP 2018 (for subspaces; there between
        values, here between the weights that make them); Kornblith et al., Similarity of Neural Network Representations
        Revisited, ICML 2019 (CKA).

    Args:
        w_HDE: weights of the query, key or value projection; for the output projection, transposed.

    Returns:
        A scalar from 0 to 1. It is 0 for one head, and for a pair of which one's weights are all zero.

    Raises:
        InputError: the weights have another number of dimensions.
    """
    if problems := misshapen("projection_overlap", w_HDE=w_HDE):
        raise InputError(*problems)
    heads, features, _ = w_HDE.shape
    with widened(w_HDE) as (w,):
        rows = w.flatten(0, 1)
        shared_HH = (rows @ rows.mT).square().view(heads, features, heads, features).sum((1, 3))
        scale_H = inverse_root(shared_HH.diagonal())
        overlap_HH = shared_HH * scale_H[:, None] * scale_H
        return overlap_HH.tril(-1).sum() / max(1, heads * (heads - 1) // 2)


def output_agreement(outputs_BTHD: Tensor, counted: Tensor | None = None) -> Tensor:
    """How alike heads' outputs are: the mean over pairs of heads of their cosine at each position.

    References:
        Li et al., Multi-Head Attention with Disagreement Regularization, EMNLP 2018 (for outputs; there with the
        opposite sign, and with the pairs of a head with itself).

    Args:
        outputs_BTHD: heads' outputs, before the output projection.
        counted: ``(B, T)``, True where a position counts, False on padding; every position when None.

    Returns:
        A scalar from -1 / (H - 1) to 1. It is 0 for one head, and a cosine with an output that is all zero is 0.

    Raises:
        InputError: the outputs or the mask have another shape, or the mask another type.
    """
    problems = misshapen("output_agreement", outputs_BTHD=outputs_BTHD)
    problems = problems or uncountable("output_agreement", counted, tuple(outputs_BTHD.shape[:2]))
    if problems:
        raise InputError(*problems)
    heads = outputs_BTHD.shape[2]
    with widened(outputs_BTHD) as (outputs,):
        cosines_BT = _summed_cosines(units(outputs))
        return mean_over(cosines_BT / max(1, heads * (heads - 1)), counted)


def map_agreement(maps_BHTS: Tensor, counted: Tensor | None = None) -> Tensor:
    """How alike the positions are that heads attend to: the mean over queries and pairs of heads of their rows' cosine.

    The paper below multiplies the rows; the cosine is 1 for equal rows also where they are spread over many keys.

    References:
        Li et al., Multi-Head Attention with Disagreement Regularization, EMNLP 2018 (for attended positions).

    Args:
        maps_BHTS: attention weights after the softmax.
        counted: ``(B, T)``, True where a query counts, False on padding; every query when None.

    Returns:
        A scalar from 0 to 1. Rows that are all zero, of queries that see no key, are in no pair; 0 where there is none.

    Raises:
        InputError: the maps or the mask have another shape, or the mask another type.
    """
    problems = misshapen("map_agreement", maps_BHTS=maps_BHTS)
    problems = problems or uncountable("map_agreement", counted, (maps_BHTS.shape[0], maps_BHTS.shape[2]))
    if problems:
        raise InputError(*problems)
    with widened(maps_BHTS) as (maps,):
        rows_BTHS = units(maps.transpose(1, 2))
        seeing_BT = rows_BTHS.any(-1).sum(-1)
        pairs_BT = seeing_BT * (seeing_BT - 1)
        if counted is not None:
            pairs_BT = pairs_BT * counted
        return torch.where(pairs_BT > 0, _summed_cosines(rows_BTHS), 0.0).sum() / pairs_BT.sum().clamp(min=1)


def _summed_cosines(units_BTHD: Tensor) -> Tensor:
    """``(B, T)``: the cosines of all ordered pairs of heads added up: ``|Σ u|² - Σ |u|²``."""
    return (units_BTHD.sum(2).square() - units_BTHD.square().sum(2)).sum(-1)
