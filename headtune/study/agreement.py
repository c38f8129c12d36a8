"""Whether plans that a supernet finds better train better."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from headtune.pareto import Objective
from headtune.study.record import Agreement
from headtune.trial import Outcome, TrialRecord
from headtune.trial.plan_scores import PlanScore

LOW = 0.5
"""A rank correlation below this says little of which plans are best."""

LEVEL = 0.05
"""Of the test whether it is above 0."""

_FEWEST = 3


def agreement(scores: Sequence[PlanScore], trials: Sequence[TrialRecord], objectives: Sequence[Objective]) -> Agreement:
    """Spearman's rank correlation of the first quality, over the plans that were scored and trained to the end.

    References:
        Spearman, The proof and measurement of association between two things, 1904.
    """
    metric = next(goal.metric for goal in objectives if not goal.measured)
    trained = {trial.plan: trial.metrics[metric] for trial in trials if trial.outcome is Outcome.OK}
    pairs = [
        (one.quality[metric], trained[one.plan])
        for one in scores
        if one.plan in trained and np.isfinite(one.quality[metric])
    ]
    told = Agreement(metric=metric, plans=len(pairs))
    if len(pairs) < _FEWEST or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return told
    found = spearmanr(*zip(*pairs, strict=True), alternative="greater")
    return Agreement(metric=metric, plans=len(pairs), correlation=float(found[0]), p_value=float(found[1]))


def agreement_sentence(told: Agreement) -> str:
    """The agreement in plain words, with a warning where it is low."""
    plans = f"{told.plans} plans" if told.plans != 1 else "1 plan"
    if told.correlation is None or told.p_value is None:
        return (
            f"Whether the supernet ranks plans as full trainings do cannot be said from {plans} that both judged, with "
            f"{told.metric} the same for all or too few of them: {_WARNING}."
        )
    sentence = (
        f"The supernet's {told.metric} and that of the full trainings have a rank correlation of "
        f"{told.correlation:.2f} (Spearman, {plans})"
    )
    reasons = [f"which is below {LOW}"] if told.correlation < LOW else []
    if told.p_value > LEVEL:
        reasons.append(f"{'' if reasons else 'which is '}not significantly above 0 (p = {told.p_value:.2g})")
    return f"{sentence}, {' and '.join(reasons)}: {_WARNING}." if reasons else f"{sentence}."


_WARNING = "the shortlist may have missed the best plan, and `evaluator: train` would search without it"
