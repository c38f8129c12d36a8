"""Trainings that came to nothing, in words: how many, why, and what to do."""

from collections.abc import Sequence
from pathlib import Path

from headtune._logging import LOG_NAME
from headtune.errors import MetricError, TrialError
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_ALIKE = (Outcome.INFEASIBLE, Outcome.STOPPED, Outcome.DIVERGED)
"""Their messages hold numbers that differ from trial to trial."""


def nothing_trained(trials: Sequence[TrialRecord], ending: str, output: Path | None) -> TrialError:
    """The error of a search in which no trial was trained to its end: how often and why, each reason once.

    Args:
        trials: those of the search.
        ending: why the search ended before its trials were trained; empty where it did not.
        output: the study's folder.
    """
    ended = [trial for trial in trials if trial.outcome is not None]
    if not ended:
        return TrialError(
            f"no trial was trained: {ending or 'none was started'}; give it more time (search.timeout in a study file, "
            "timeout_s in Python) and run it again: it begins anew"
        )
    reasons: dict[str, list[TrialRecord]] = {}
    for trial in ended:
        reasons.setdefault(str(trial.outcome) if trial.outcome in _ALIKE else trial.message, []).append(trial)
    problems = [
        f"no trial was trained to its end; {len(alike)} of {len(ended)}: {first_reason(alike)}"
        for alike in reasons.values()
    ]
    problems[-1] += f"; {_remedy(output)}: it begins anew"
    return TrialError(*problems)


def misfit(reason: str) -> MetricError:
    """The error of a search whose first training showed that the task reports other things than the study needs."""
    return MetricError(
        f"the task does not fit the study, as its first training shows: {reason}; mend the task, or name in objectives "
        "what it reports, and run the same study again: it begins anew"
    )


def nothing_retrained(failed: Sequence[TrialRecord], output: Path | None) -> TrialError:
    """The error of a verification in which no plan that may be recommended was trained to its end."""
    return TrialError(
        f"verify: the plans that may be recommended were trained again, and none of these {len(failed)} trainings came "
        f"to its end; the first: {first_reason(failed)}; {_remedy(output)}: the search is kept, the trainings that "
        "failed are tried again"
    )


def shortfall(plan: str, failed: Sequence[TrialRecord], wanted: int) -> str:
    """What the *failed* ones of the *wanted* trainings mean for the finalist that *plan* names."""
    first = first_reason(failed)
    if len(failed) >= wanted:
        return f"{plan} is not judged: none of its {wanted} trainings came to its end; the first: {first}."
    return (
        f"{plan} is judged by {wanted - len(failed)} of {wanted} trainings: the others did not come to their end; "
        f"the first of these: {first}."
    )


def first_reason(trials: Sequence[TrialRecord]) -> str:
    """Why the first of *trials* ended, as part of a sentence."""
    return trials[0].message.removesuffix(".")


def _remedy(output: Path | None) -> str:
    log = None if output is None else output / LOG_NAME
    told = f"each traceback is in {log}; " if log is not None and log.is_file() else ""
    return f"{told}mend the cause and run the same study again"
