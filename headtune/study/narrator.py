"""Progress for a study in Python: plain lines on stderr."""

import sys
from collections.abc import Sequence

from headtune.trial import TrialRecord


class Narrator:
    """An observer that writes each phase, note and ended trial as a line on stderr."""

    def __init__(self) -> None:
        self._asked = self._before = self._done = 0

    def phase(self, name: str, detail: str = "") -> None:
        """Name the phase."""
        self._done = 0
        self.note(f"{name}: {detail}" if detail else name)

    def note(self, message: str) -> None:
        """Write the note."""
        print(f"headtune: {message}", file=sys.stderr, flush=True)

    def plan(self, trials: int, finished: int) -> None:
        """Remember how many trials are wanted."""
        self._asked, self._before = trials, finished

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """Nothing to say: they were told when they ended."""

    def trial(self, record: TrialRecord) -> None:
        """Say how a trial ended."""
        if record.outcome is None:
            return
        self._done += record.trained
        values = ", ".join(f"{name} {value:.4g}" for name, value in record.metrics.items())
        ending = values if record.outcome.value == "ok" else record.message
        self.note(f"{record.title}: {ending} [{self._before + self._done} of {self._asked}]")
