"""Losses of a student against a teacher: 0 where both compute the same, larger the further they are apart.

They are scalars, computed in float32 at least, with gradients for the student alone. What ``counted`` leaves out, such
as padding, is as if it had not been in the batch.

B batch, T positions or queries, S keys, H and G heads, D and F features per head or in all, E model width, C classes,
R relation heads; L all leading dimensions.
"""

from math import gcd

import torch
from torch import Tensor
from torch.nn import functional as F

import headtune.rules as rules
from headtune.errors import InputError
from headtune.nn.operands import mean_over, misshapen, uncountable, units, widened


def soft_target_loss(
    student_LC: Tensor, teacher_LC: Tensor, temperature: float, counted: Tensor | None = None
) -> Tensor:
    """``temperature² KL(teacher || student)`` of the softmax of logits at a temperature: the mean over predictions.

    The square keeps the size of the gradients as the temperature changes. Beside a loss on the targets it is weighted:
    ``alpha * soft_target_loss(…) + (1 - alpha) * loss``.

    It is for outputs that are logits of classes. A single logit has no distribution over classes: it is refused. Real
    numbers that a model regresses look like logits and cannot be told from them: compare those with ``F.mse_loss``.

    References:
        Hinton, Vinyals and Dean, Distilling the Knowledge in a Neural Network, 2015.

    Args:
        student_LC: logits, classes last.
        teacher_LC: logits of the same classes; a class that is -inf in both counts as absent.
        temperature: above 0; the higher, the more the classes count that the teacher deems improbable.
        counted: ``(L…)``, True where a prediction counts, such as ``targets != ignore_index``; every one when None.

    Raises:
        InputError: the shapes differ, there is one class only, or the temperature or the mask is unfit.
    """
    where = "soft_target_loss"
    problems = [f"{where}: {problem}" for problem in rules.broken({"temperature": (temperature, rules.positive)})]
    if student_LC.shape != teacher_LC.shape:
        shapes = f"{tuple(student_LC.shape)} and {tuple(teacher_LC.shape)}"
        problems.append(f"{where}: student and teacher must have logits of the same classes (got shapes {shapes})")
    elif student_LC.dim() == 0 or student_LC.shape[-1] < 2:
        problems.append(
            f"{where}: logits must be of two classes at least (got shape {tuple(student_LC.shape)}); give "
            "torch.cat([torch.zeros_like(logit), logit], -1) of a binary logit, take F.mse_loss for a regression"
        )
    problems += uncountable(where, counted, tuple(student_LC.shape[:-1]))
    if problems:
        raise InputError(*problems)
    with widened(student_LC, teacher_LC.detach()) as (student, teacher):
        divergence_L = _divergence((teacher / temperature).log_softmax(-1), (student / temperature).log_softmax(-1))
        return temperature**2 * mean_over(divergence_L, counted)


def hidden_state_loss(student_BTE: Tensor, teacher_BTF: Tensor, counted: Tensor | None = None) -> Tensor:
    """How far hidden states are apart: their own squared difference, or where widths differ, that of their relations.

    States of one width are compared after a layer norm without weights, as the next layer's norm forgets their scale.
    States of different widths have no features in common: compared is the cosine of each two positions of a sequence.

    References:
        Sun et al., MobileBERT, ACL 2020 (feature map transfer, its normalised part); Park et al., Relational Knowledge
        Distillation, CVPR 2019 (relations instead of values); Tung and Mori, Similarity-Preserving Knowledge
        Distillation, ICCV 2019 (mean square of the difference of similarity matrices, there of the items of a batch).

    Args:
        student_BTE: states of the student.
        teacher_BTF: states of the teacher at the same positions.
        counted: ``(B, T)``, True where a position counts, False on padding; every position when None.

    Returns:
        A scalar: the mean square over features and positions, or over the pairs of positions.

    Raises:
        InputError: the positions differ, or the mask is unfit.
    """
    if problems := _unfit("hidden_state_loss", counted, student_BTE=student_BTE, teacher_BTF=teacher_BTF):
        raise InputError(*problems)
    with widened(student_BTE, teacher_BTF.detach()) as (student, teacher):
        if student.shape == teacher.shape:
            apart_BTE = F.layer_norm(student, student.shape[-1:]) - F.layer_norm(teacher, teacher.shape[-1:])
            return mean_over(apart_BTE.square().mean(-1), counted)
        apart_BTT = _cosines(student) - _cosines(teacher)
        both = None if counted is None else counted[:, :, None] & counted[:, None, :]
        return mean_over(apart_BTT.square(), both)


def attention_map_loss(student_BHTS: Tensor, teacher_BGTS: Tensor, counted: Tensor | None = None) -> Tensor:
    """``KL(teacher || student)`` of where heads attend: the mean over heads and queries.

    Head is compared with head where their numbers are equal. Where they differ, no head has a counterpart, and the mean
    maps over heads are compared: the student must look where the teacher looks, with whichever heads. To compare single
    heads across counts, see :func:`relation_loss`.

    References:
        Sun et al., MobileBERT, ACL 2020 (attention transfer, head by head); Zagoruyko and Komodakis, Paying More
        Attention to Attention, ICLR 2017 (one map instead of as many as there are channels).

    Args:
        student_BHTS: attention weights after the softmax, without dropout.
        teacher_BGTS: those of the teacher.
        counted: ``(B, T)``, True where a query counts, False on padding; every query when None. A query that sees no
            key in the teacher does not count.

    Raises:
        InputError: batch, queries or keys differ, or the mask is unfit.
    """
    if problems := _unfit("attention_map_loss", counted, student_BHTS=student_BHTS, teacher_BGTS=teacher_BGTS):
        raise InputError(*problems)
    with widened(student_BHTS, teacher_BGTS.detach()) as (student, teacher):
        if student.shape != teacher.shape:
            student, teacher = student.mean(1, keepdim=True), teacher.mean(1, keepdim=True)
        least = torch.finfo(student.dtype).tiny  # what the teacher looks at and the student not at all costs, finitely
        divergence_BHT = _divergence(teacher.log(), student.clamp(min=least).log())
        seeing_BHT = teacher.any(-1)
        return mean_over(divergence_BHT, seeing_BHT if counted is None else seeing_BHT & counted[:, None, :])


def relation_loss(
    student_BTHD: Tensor, teacher_BTGF: Tensor, relation_heads: int, counted: Tensor | None = None
) -> Tensor:
    """``KL(teacher || student)`` of how positions relate by queries, keys or values: the mean over R and positions.

    Heads are concatenated and split anew into as many relation heads on both sides, so that numbers of heads and widths
    may differ. A relation is the softmax of the scaled dot products of each two positions of a sequence.

    References:
        Wang et al., MiniLMv2: Multi-Head Self-Attention Relation Distillation for Compressing Pretrained Transformers,
        Findings of ACL 2021, https://arxiv.org/abs/2012.15828 (it adds up the losses of queries, keys and values).

    Args:
        student_BTHD: queries, keys or values of the student's heads.
        teacher_BTGF: the same of the teacher's.
        relation_heads: R, which divides H·D and G·F; the more, the finer what is compared.
        counted: ``(B, T)``, True where a position counts, False on padding; every position when None.

    Raises:
        InputError: the positions differ, R does not divide a width, or the mask is unfit.
    """
    where = "relation_loss"
    problems = _unfit(where, counted, student_BTHD=student_BTHD, teacher_BTGF=teacher_BTGF)
    problems += [f"{where}: {problem}" for problem in rules.broken({"relation_heads": (relation_heads, rules.count)})]
    mine, theirs = student_BTHD.shape[2:].numel(), teacher_BTGF.shape[2:].numel()
    if not problems and gcd(mine, theirs) % relation_heads:
        problems.append(
            f"{where}: widths of {mine} and {theirs} do not both divide into {relation_heads} relation heads; "
            f"choose a divisor of {gcd(mine, theirs)}"
        )
    if problems:
        raise InputError(*problems)
    with widened(student_BTHD, teacher_BTGF.detach()) as (student, teacher):
        divergence_BRT = _divergence(
            _log_relations(teacher, relation_heads, counted), _log_relations(student, relation_heads, counted)
        )
        return mean_over(divergence_BRT, None if counted is None else counted[:, None, :])


def _unfit(where: str, counted: Tensor | None, **tensors: Tensor) -> list[str]:
    """What is wrong with tensors that are named by their shapes, or with a mask of their positions."""
    (name, tensor), *_ = tensors.items()
    sizes = dict(zip(name.rpartition("_")[2], tensor.shape, strict=False))
    return misshapen(where, **tensors) or uncountable(where, counted, (sizes["B"], sizes["T"]))


def _divergence(log_teacher_LC: Tensor, log_student_LC: Tensor) -> Tensor:
    """``(L…)``: the KL divergence over the last dimension; what the teacher deems impossible adds nothing to it."""
    teacher_LC = log_teacher_LC.exp()
    return torch.where(teacher_LC > 0, teacher_LC * (log_teacher_LC - log_student_LC), 0.0).sum(-1)


def _cosines(states_BTE: Tensor) -> Tensor:
    """``(B, T, T)``: the cosine of each two positions' states."""
    units_BTE = units(states_BTE)
    return units_BTE @ units_BTE.mT


def _log_relations(vectors_BTHD: Tensor, relation_heads: int, counted: Tensor | None) -> Tensor:
    """``(B, R, T, T)``: the logarithm of how each position relates to those that count."""
    vectors_BRTD = vectors_BTHD.flatten(2).unflatten(2, (relation_heads, -1)).transpose(1, 2)
    scores_BRTT = vectors_BRTD @ vectors_BRTD.mT * vectors_BRTD.shape[-1] ** -0.5
    if counted is not None:  # not -inf: a sequence of which nothing counts must stay finite
        scores_BRTT = scores_BRTT.masked_fill(~counted[:, None, None, :], torch.finfo(scores_BRTT.dtype).min)
    return F.log_softmax(scores_BRTT, -1)
