"""What the supernet said, as the study's storage keeps it."""

from collections.abc import Mapping, Sequence
from typing import Any

from headtune.heads import HeadPlan
from headtune.pareto import Objective
from headtune.search import Ledger, LedgerView
from headtune.study.agreement import agreement
from headtune.study.record import SupernetRecord
from headtune.trial.plan_scores import PlanScore

FACT = "supernet"


def remember_supernet(
    ledger: Ledger,
    scores: Sequence[PlanScore],
    plans: Sequence[HeadPlan],
    ordered_by: Mapping[str, str],
    seconds: float,
) -> None:
    """Keep the scores and the shortlist made of them, so that no restart trains the supernet again."""
    value: dict[str, Any] = {
        "scores": [one.to_json() for one in scores],
        "shortlist": [plan.to_json() for plan in plans],
        "ordered_by": dict(ordered_by),
        "seconds": seconds,
    }
    ledger.remember(FACT, value)


def supernet_of(view: Ledger | LedgerView) -> SupernetRecord | None:
    """What was remembered, with how well it agrees with the trials by now; ``None`` where nothing was."""
    kept = view.recall(FACT)
    if kept is None:
        return None
    scores = tuple(PlanScore.from_json(one) for one in kept["scores"])
    objectives = [Objective(**goal) for goal in view.manifest["objectives"]]
    return SupernetRecord(
        scores=scores,
        shortlist=tuple(HeadPlan.from_json(plan) for plan in kept["shortlist"]),
        ordered_by=kept["ordered_by"],
        seconds=kept["seconds"],
        agreement=agreement(scores, view.trials(), objectives),
    )
