"""What a study tells, into its log."""

import logging
from collections.abc import Sequence

from headtune.cli.trial_wording import trial_ending
from headtune.pareto import Objective
from headtune.trial.contract import Observer
from headtune.trial.record import TrialRecord

_log = logging.getLogger(__name__)


class Logged:
    """Passes everything on to another observer, and writes phases, notes and the endings of trials into the log.

    Args:
        shown: the observer that the person sees.
        objectives: the study's.
    """

    def __init__(self, shown: Observer, objectives: Sequence[Objective]) -> None:
        self.shown = shown
        self._objectives = tuple(objectives)
        self._phase = ""

    def phase(self, name: str, detail: str = "") -> None:
        """Log the phase."""
        self._phase = name
        _log.info("%s: %s", name, detail)
        self.shown.phase(name, detail)

    def note(self, message: str) -> None:
        """Log the note."""
        _log.info("%s", message)
        self.shown.note(message)

    def plan(self, trials: int, finished: int) -> None:
        """Log how many trials are wanted."""
        _log.info("%s: %d of %d trials done", self._phase, finished, trials)
        self.shown.plan(trials, finished)

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """Pass them on; they are in the log of an earlier start."""
        self.shown.earlier(records)

    def trial(self, record: TrialRecord) -> None:
        """Log how a trial ended."""
        if record.outcome is not None:
            ending = trial_ending(record, self._objectives)
            _log.info("%s: %s: %s: %s", self._phase, record.title, record.outcome.value, ending)
        self.shown.trial(record)
