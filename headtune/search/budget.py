"""Whether a search may start another trial."""

from dataclasses import dataclass

from headtune.trial.contract import Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Where a search stands.

    Attributes:
        trained: trials that were trained, to the end or until stopped.
        failed: trials that crashed, ran out of memory or diverged.
        infeasible: trials that broke a constraint before any training.
        running: trials in flight.
        elapsed_s: wall seconds of the search so far, over restarts.
    """

    trained: int
    failed: int
    infeasible: int
    running: int
    elapsed_s: float

    @property
    def starts(self) -> int:
        """Trials that have ended, however."""
        return self.trained + self.failed + self.infeasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a search may spend.

    Attributes:
        trials: to be trained.
        concurrent: trials at once.
        timeout_s: wall seconds over restarts; ``None`` for no bound.
        baselines: how many of the trials are baselines.
    """

    trials: int
    concurrent: int
    timeout_s: float | None
    baselines: int

    @property
    def cap(self) -> int:
        """Starts of any kind, after which a search gives up: infeasible trials are free, but not without end."""
        return max(50, 10 * self.trials)

    @property
    def patience(self) -> int:
        """Failures after which a search gives up, if nothing was ever trained."""
        return max(10, 2 * self.baselines)

    def signal(self, tally: Tally) -> Signal | None:
        """``None`` to go on, ``WAIT`` while running ones decide, ``DONE`` to end."""
        if self.exceeded(tally):
            return Signal.DONE
        return Signal.WAIT if tally.running >= min(self.concurrent, self.cap - tally.starts) else None

    def room(self, tally: Tally) -> int:
        """Trials that may still be begun: those that run may all come to be trained."""
        return self.trials - tally.trained - tally.running

    def exceeded(self, tally: Tally) -> str:
        """Why the search ends before its trials are trained; empty while it goes on."""
        if tally.trained == 0 and tally.failed >= self.patience:
            return f"the first {tally.failed} trials all failed, so no other is started"
        if tally.starts >= self.cap:
            return (
                f"{tally.starts} trials were started and {tally.trained} of {self.trials} trained "
                f"({tally.infeasible} infeasible, {tally.failed} failed); give the constraints or the space more room"
            )
        if self.timeout_s is not None and tally.elapsed_s >= self.timeout_s:
            return f"the timeout of {self.timeout_s:g} s is over with {tally.trained} of {self.trials} trials trained"
        return ""
