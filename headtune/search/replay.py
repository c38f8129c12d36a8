"""The verification's broker: trainings that are wanted, as far as they are told by what came of earlier ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headtune.heads import HeadPlan
from headtune.search.course import Course
from headtune.search.draft import Draft
from headtune.search.ledger import Ledger
from headtune.trial import (
    Measurement,
    Observer,
    Outcome,
    ParamValue,
    Signal,
    Silent,
    TrialRecord,
    TrialRequest,
    TrialResult,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraining:
    """One training that a finalist is judged by.

    Attributes:
        repeat: 1 … n; 0 is the search's.
        label: a baseline's name, else empty.
        in_space: whether the search may choose the plan.
    """

    plan: HeadPlan
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    repeat: int
    label: str = ""
    in_space: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be trained, in order; what is done already may be named too.

    Attributes:
        needed: without it nothing more can be decided.
        ahead: what may be needed next, for slots that would be idle while the last of the needed ones run.
    """

    needed: Sequence[Retraining]
    ahead: Sequence[Retraining] = ()


Decide = Callable[[Sequence[TrialRecord]], Wanted]
"""What is wanted, from the trainings that have ended and count."""


class ReplayBroker:
    """A :class:`headtune.trial.contract.Broker` over trainings that something else decides on, each done once.

    Those that the ledger has already are skipped, whatever came of them, but for failed ones up to the number *again*;
    none is ever stopped early.

    Args:
        ledger: where everything is kept.
        decide: asked whenever a training has ended; the answer must follow from the trainings alone, so that a
            restart goes on with the same ones.
        seed: the study's.
        epochs: of a full training.
        concurrent: trials at once.
        again: trainings up to this number that did not come to their end are tried again.
        observer: hears of every change.
    """

    def __init__(
        self,
        ledger: Ledger,
        decide: Decide,
        *,
        seed: int,
        epochs: int,
        concurrent: int = 1,
        again: int = -1,
        observer: Observer | None = None,
    ) -> None:
        self._ledger = ledger
        self._decide = decide
        self._concurrent = concurrent
        self._again = again
        self._observer = observer or Silent()
        self._course = Course(ledger.verify_book(), seed, epochs, self._observer)
        self._before = self._done()
        self._begun: set[str] = set()
        self._told = 0
        self._ask()

    def propose(self) -> TrialRequest | Signal:
        """The next training; ``WAIT`` until a running one ends; ``DONE`` when nothing is left to start."""
        running = {Draft.of(record).key for record in self._course.running}
        if len(running) >= self._concurrent:
            return Signal.WAIT
        busy = self._done() | running
        needed = {key: draft for key, draft in self._needed.items() if key not in busy}
        ahead = self._ahead if self._needed.keys() & running else {}
        wanted = needed | {key: draft for key, draft in ahead.items() if key not in busy}
        if not wanted:
            return Signal.WAIT if running else Signal.DONE
        draft = next((draft for draft in self._course.again if draft.key in wanted), None)
        if draft is None:
            draft = next(iter(wanted.values()))
        else:
            self._course.again.remove(draft)
        self._begun.add(draft.key)
        return self._course.start(draft)

    def measured(self, number: int, measurement: Measurement) -> None:
        """Remember what is known of a trial before it trains."""
        self._course.measured(number, measurement)

    def report(self, number: int, step: int, metrics: Mapping[str, float]) -> bool:
        """Remember a report; ``True``, stop now, only for a trial that diverged or has ended."""
        return self._course.report(number, step, metrics) is None

    def finish(self, number: int, result: TrialResult) -> None:
        """Remember how a trial ended; a second call is ignored."""
        self.beat()  # a driver that lost the study, or its file, has nothing to say of a trial
        if self._course.finish(number, result) is not None:
            self._ask()

    def lost(self, number: int, reason: str) -> None:
        """A trial lost its worker: it is tried again before anything else, at most twice."""
        self._course.lost(number, reason)
        self._ask()

    def beat(self) -> None:
        """Keep the lease on the study."""
        self._ledger.beat()

    def _settled(self) -> list[TrialRecord]:
        return [record for record in self._course.ended if record.outcome is Outcome.OK or record.number > self._again]

    def _done(self) -> set[str]:
        return {Draft.of(record).key for record in self._settled()}

    def _ask(self) -> None:
        wanted = self._decide(self._settled())
        self._needed = {draft.key: draft for draft in map(_draft, wanted.needed)}
        self._ahead = {draft.key: draft for draft in map(_draft, wanted.ahead)}
        every = self._needed.keys() | self._begun
        if len(every) > self._told:
            self._told = len(every)
            self._observer.plan(len(every), len(every & self._before))


def _draft(request: Retraining) -> Draft:
    return Draft(
        kind="verify",
        label=request.label,
        plan=request.plan,
        params=request.params,
        repeat=request.repeat,
        in_space=request.in_space,
    )
