"""Which plans to measure, so that few say most of all."""

from collections.abc import Sequence
from random import Random

import numpy as np

import headtune.rules as rules
from headtune.errors import InputError
from headtune.heads import HeadPlan, SearchSpace
from headtune.timing.prediction.features import PRIORS, Array, features_of, matrix_of, prior_of

_CANDIDATES = 12
"""Candidates for each plan that is chosen."""


def informative_plans(space: SearchSpace, count: int, seed: int) -> tuple[HeadPlan, ...]:
    """*count* plans of the space that together determine the sites' effects best; all of it where it holds no more.

    Greedily D-optimal: each plan is the one that adds most to the determinant of the effects' precision (Fedorov,
    *Theory of Optimal Experiments*, 1972), among candidates from the sparse to the dense. It begins with the smallest
    and the largest plan, so that nothing later lies beyond what is measured.

    Args:
        space: what may be chosen.
        count: how many, 2 at least.
        seed: of the candidates.

    Raises:
        InputError: every argument of the wrong kind, or fewer than 2 plans, which show no difference.
    """
    problems = rules.broken(
        {
            "space": (space, rules.a(SearchSpace, "a SearchSpace")),
            "count": (count, rules.at_least(2)),
            "seed": (seed, rules.integer),
        }
    )
    if problems:
        raise InputError(*(f"informative_plans: {problem}" for problem in problems))
    if space.size <= count:
        return tuple(space)
    candidates = _candidates(space, count, Random(seed))
    features = features_of(space.sites, candidates)
    rows_RP = matrix_of(features, candidates, HeadPlan.present(space.sites)) * prior_of(features, PRIORS[-1])
    return tuple(candidates[index] for index in _greedy(rows_RP, min(count, len(candidates))))


def _candidates(space: SearchSpace, count: int, rng: Random) -> list[HeadPlan]:
    """Distinct plans: the two ends, then those whose sites lean to few heads or to many, or to one end or the other."""
    lasts = [len(dimension.choices) - 1 for dimension in space.dimensions]
    found = dict.fromkeys((space.smallest, space.largest))
    for turn in range(count * _CANDIDATES * 4):
        if len(found) >= count * _CANDIDATES:
            break
        lean = rng.random()
        ends = [last if rng.random() < lean else 0 for last in lasts]
        within = [sum(rng.random() < lean for _ in range(last)) for last in lasts]
        found[space.plan(ends if turn % 2 else within)] = None
    return list(found)


def _greedy(rows_RP: Array, count: int) -> Sequence[int]:
    """Rows that make the determinant of the identity and their outer products grow most, the first two given."""
    inverse_PP = np.eye(rows_RP.shape[1])
    chosen: list[int] = []
    for turn in range(count):
        gains_R = np.einsum("rp,pq,rq->r", rows_RP, inverse_PP, rows_RP)
        gains_R[chosen] = -1.0
        pick = turn if turn < 2 else int(np.argmax(gains_R))
        chosen.append(pick)
        along_P = inverse_PP @ rows_RP[pick]
        inverse_PP = inverse_PP - np.outer(along_P, along_P) / (1 + rows_RP[pick] @ along_P)
    return chosen
