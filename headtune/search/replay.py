"""The verification's broker: a fixed list of trainings, each done once."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headtune.heads import HeadPlan
from headtune.search.course import Course
from headtune.search.draft import Draft
from headtune.search.ledger import Ledger
from headtune.trial import Measurement, Observer, Outcome, ParamValue, Signal, Silent, TrialRequest, TrialResult


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


class ReplayBroker:
    """A :class:`headtune.trial.contract.Broker` over a fixed list of trainings.

    Those that the ledger has already are skipped, whatever came of them, but for failed ones up to the number *again*;
    none is ever stopped early.

    Args:
        ledger: where everything is kept.
        requests: what to train, in order.
        seed: the study's.
        epochs: of a full training.
        concurrent: trials at once.
        again: trainings up to this number that did not come to their end are tried again.
        observer: hears of every change.
    """

    def __init__(
        self,
        ledger: Ledger,
        requests: Sequence[Retraining],
        *,
        seed: int,
        epochs: int,
        concurrent: int = 1,
        again: int = -1,
        observer: Observer | None = None,
    ) -> None:
        self._ledger = ledger
        self._concurrent = concurrent
        self._course = Course(ledger.verify_book(), seed, epochs, observer or Silent())
        wanted = {draft.key: draft for draft in map(_draft, requests)}
        begun = [draft for draft in self._course.again if draft.key in wanted]
        ended = self._course.ended
        done = {Draft.of(record).key for record in ended if record.outcome is Outcome.OK or record.number > again}
        fresh = [draft for key, draft in wanted.items() if key not in done and key not in {d.key for d in begun}]
        self._course.again = deque([*begun, *fresh])
        (observer or Silent()).plan(len(wanted), len(done & wanted.keys()))

    def propose(self) -> TrialRequest | Signal:
        """The next training; ``WAIT`` until a running one ends; ``DONE`` when nothing is left to start."""
        running = len(self._course.running)
        if not self._course.again:
            return Signal.WAIT if running else Signal.DONE
        if running >= self._concurrent:
            return Signal.WAIT
        return self._course.start(self._course.again.popleft())

    def measured(self, number: int, measurement: Measurement) -> None:
        """Remember what is known of a trial before it trains."""
        self._course.measured(number, measurement)

    def report(self, number: int, step: int, metrics: Mapping[str, float]) -> bool:
        """Remember a report; ``True``, stop now, only for a trial that diverged or has ended."""
        return self._course.report(number, step, metrics) is None

    def finish(self, number: int, result: TrialResult) -> None:
        """Remember how a trial ended; a second call is ignored."""
        self.beat()  # a driver that lost the study, or its file, has nothing to say of a trial
        self._course.finish(number, result)

    def lost(self, number: int, reason: str) -> None:
        """A trial lost its worker: it is tried again before anything else, at most twice."""
        self._course.lost(number, reason)

    def beat(self) -> None:
        """Keep the lease on the study."""
        self._ledger.beat()


def _draft(request: Retraining) -> Draft:
    return Draft(
        kind="verify",
        label=request.label,
        plan=request.plan,
        params=request.params,
        repeat=request.repeat,
        in_space=request.in_space,
    )
