"""The trials of one broker in motion: in flight, ended, and to be started again."""

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optuna.distributions import BaseDistribution

from headtune.search.book import TrialBook
from headtune.search.draft import Draft
from headtune.search.judgement import judge, not_finite
from headtune.search.seeds import trial_seed
from headtune.trial.contract import Observer
from headtune.trial.messages import Measurement, TrialRequest, TrialResult
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

LOSSES = 3
"""So often a training may lose its worker within one start of the study."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Flight:
    """A running trial: its record so far, its draft, what it reported that is not finite, whether it is to stop."""

    record: TrialRecord
    draft: Draft
    wild: str | None = None
    stopping: bool = False


@dataclass(slots=True)
class Course:
    """Keeps the book of trials while they run; every broker has one.

    Args:
        book: where they are written.
        seed: the study's.
        epochs: of a full training.
        observer: hears of every change.
    """

    book: TrialBook
    seed: int
    epochs: int
    observer: Observer
    again: deque[Draft] = field(init=False)
    _ended: dict[int, TrialRecord] = field(init=False)
    _flights: dict[int, _Flight] = field(init=False, default_factory=dict)
    _losses: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        records, unfinished = self.book.take_over("its executor ended while it ran; the same training is started again")
        self._ended = {record.number: record for record in records}
        self.again = deque(unfinished)

    @property
    def running(self) -> list[TrialRecord]:
        """Trials in flight, in the order of their start."""
        return [flight.record for flight in self._flights.values()]

    @property
    def ended(self) -> list[TrialRecord]:
        """Trials that have ended, in the order of their numbers."""
        return [self._ended[number] for number in sorted(self._ended)]

    @property
    def records(self) -> list[TrialRecord]:
        """All trials, in the order of their numbers."""
        return sorted([*self._ended.values(), *self.running], key=lambda record: record.number)

    def twin(self, draft: Draft, params: Sequence[str]) -> TrialRecord | None:
        """The first trial that was timed with the draft's plan and its values of *params*; else one that runs so."""
        built = {name: draft.params[name] for name in params}
        twins = [
            record
            for record in self.records
            if record.plan == draft.plan and {name: record.params[name] for name in params} == built
        ]
        timed = [record for record in twins if record.latency is not None]
        return next(iter([*timed, *(record for record in twins if record.outcome is None)]), None)

    def start(
        self,
        draft: Draft,
        values: Mapping[str, object] | None = None,
        distributions: Mapping[str, BaseDistribution] | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> TrialRequest:
        """Write the trial down, with the values that a dashboard shows, and make it a request."""
        record = TrialRecord(
            number=-1,
            kind=draft.kind,
            label=draft.label,
            plan=draft.plan,
            params=draft.params,
            repeat=draft.repeat,
            seed=trial_seed(self.seed, draft.repeat),
            outcome=None,
            seconds=seconds or {},
            in_space=draft.in_space,
        )
        record = self.book.begin(record, values or {}, distributions or {})
        self._flights[record.number] = _Flight(record, draft)
        self.observer.trial(record)
        return draft.request(record.number, study_seed=self.seed, epochs=self.epochs)

    def measured(self, number: int, measurement: Measurement) -> None:
        """Write down what is known before training."""
        flight = self._flights.get(number)
        if flight is not None:
            flight.record = self.book.measured(flight.record, measurement)
            self.observer.trial(flight.record)

    def report(self, number: int, step: int, metrics: Mapping[str, float]) -> TrialRecord | None:
        """Write down a report; ``None`` where there is nothing to go on with: the trial has ended, or it diverged."""
        flight = self._flights.get(number)
        if flight is None:
            return None
        flight.wild = flight.wild or not_finite(metrics, self.book.objectives)
        if flight.wild is not None:
            return None
        quality = next((goal.metric for goal in self.book.objectives if not goal.measured), "")
        if quality in metrics:
            self._resume_curve(flight, step)
            flight.record = self.book.reported(flight.record, step, float(metrics[quality]))
            self.observer.trial(flight.record)
        return flight.record

    def stop(self, number: int) -> None:
        """Remember that the trial was asked to stop; one that ends so without being asked stopped itself."""
        self._flights[number].stopping = True

    def finish(self, number: int, result: TrialResult) -> TrialRecord | None:
        """Write down how a trial ended; ``None`` for one that had ended before."""
        flight = self._flights.pop(number, None)
        if flight is None:
            return None
        record, outcome = judge(flight.record, result, self.book.objectives, flight.wild, asked=flight.stopping)
        record = self._ended[number] = self.book.finish(record, outcome)
        if result.detail:
            _log.info("%s: %s\n%s", record.title, record.message, result.detail)
        self.observer.trial(record)
        return record

    def mislaid(self, number: int, result: TrialResult) -> None:
        """Leave the trial's training to be started again where it belongs: it says nothing of its plan."""
        flight = self._flights.pop(number, None)
        if flight is not None:
            self.book.supersede(number, "lost", result.message)
            self.observer.note(f"{flight.record.title}: {result.message}")

    def lost(self, number: int, reason: str) -> None:
        """Start the trial's training again, before anything else, unless it lost its worker too often."""
        flight = self._flights.get(number)
        if flight is None:
            return
        self._losses[flight.draft.key] += 1
        losses = self._losses[flight.draft.key]
        if losses >= LOSSES:
            message = f"lost its worker {losses} times: {reason}"
            self.finish(number, TrialResult(outcome=Outcome.CRASHED, message=message))
            return
        del self._flights[number]
        self.book.supersede(number, "lost", reason)
        self.again.appendleft(Draft.of(flight.record))
        self.observer.note(f"{flight.record.title} lost its worker ({reason}); it is started again")

    def _resume_curve(self, flight: _Flight, step: int) -> None:
        """A trial that went on from its checkpoint begins its reports late; the earlier ones are another attempt's."""
        earlier: Sequence[tuple[int, float]] = () if flight.record.curve else flight.draft.curve
        for early, value in earlier:
            if early < step:
                flight.record = self.book.reported(flight.record, early, value)
