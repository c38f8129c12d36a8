"""What a running study has told so far, and how far it is."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import isfinite

from headtune.heads import HeadPlan
from headtune.pareto import Objective, ParetoFront
from headtune.trial.messages import Kind
from headtune.trial.outcome import Outcome
from headtune.trial.params import ParamValue
from headtune.trial.record import TrialRecord


class Progress:
    """Keeps what an :class:`headtune.trial.contract.Observer` hears, for a view to show.

    Args:
        objectives: the study's.
        clock: seconds from any start.

    Attributes:
        phase_name: the phase that runs.
        detail: what it says about itself.
        asked: trials that the phase wants; 0 before it has said so.
    """

    def __init__(self, objectives: Sequence[Objective], clock: Callable[[], float] = time.monotonic) -> None:
        self.objectives = tuple(objectives)
        self.phase_name = ""
        self.detail = ""
        self.asked = 0
        self._before = 0
        self._began = 0.0
        self._clock = clock
        self._here: dict[int, TrialRecord] = {}
        self._started: set[int] = set()
        self._searched: dict[int, TrialRecord] = {}

    def phase(self, name: str, detail: str = "") -> None:
        """A phase begins."""
        self.phase_name, self.detail = name, detail
        self._began, self._here, self._started = self._clock(), {}, set()
        self.plan(0, 0)

    def plan(self, trials: int, finished: int) -> None:
        """The phase wants *trials*, of which *finished* were there before; it may want more later."""
        self.asked, self._before = trials, finished

    def earlier(self, records: Sequence[TrialRecord]) -> None:
        """These had ended before this start."""
        self._searched |= {record.number: record for record in records if record.kind != "verify"}

    def trial(self, record: TrialRecord) -> None:
        """A trial is now as *record* says; an earlier attempt at it that lost its worker runs no longer."""
        self._here = {
            number: known
            for number, known in self._here.items()
            if known.outcome is not None or _training(known) != _training(record)
        }
        self._here[record.number] = record
        if record.outcome is None:
            self._started.add(record.number)
        if record.kind != "verify":
            self._searched[record.number] = record

    @property
    def running(self) -> tuple[TrialRecord, ...]:
        """The trials in flight, in the order of their numbers."""
        return tuple(self._here[number] for number in sorted(self._here) if self._here[number].outcome is None)

    @property
    def done(self) -> int:
        """How many of the trials asked for are done: trained ones in search, all that ended in verify."""
        return self._before + self._done_here

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How the trials of this phase ended, as far as they ended while it was watched."""
        return Counter(record.outcome for record in self._here.values() if record.outcome is not None)

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the pace so far; ``None`` before there is one."""
        if not self._done_here or self.asked <= self.done:
            return None
        return (self._clock() - self._began) / self._done_here * (self.asked - self.done)

    @property
    def front(self) -> ParetoFront[TrialRecord]:
        """The front of the search, as far as it was watched, the best quality first."""
        offered = [(values, record) for record in self._searched.values() if (values := self._values(record))]
        return ParetoFront.of(self.objectives, offered)

    @property
    def _done_here(self) -> int:
        begun = [record for number, record in self._here.items() if number in self._started]
        if self.phase_name == "verify":
            return sum(record.outcome is not None for record in begun)
        return sum(record.trained for record in begun)

    def _values(self, record: TrialRecord) -> tuple[float, ...]:
        """The record's values in the objectives' order; empty for a trial that may not enter the front."""
        if not record.on_offer or any(goal.metric not in record.metrics for goal in self.objectives):
            return ()
        values = tuple(record.metrics[goal.metric] for goal in self.objectives)
        return values if all(map(isfinite, values)) else ()


def _training(record: TrialRecord) -> tuple[Kind, HeadPlan, dict[str, ParamValue], int]:
    """What every attempt at a trial has in common."""
    return record.kind, record.plan, dict(record.params), record.repeat
