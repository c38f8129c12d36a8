"""How a trial can end."""

from enum import StrEnum


class Outcome(StrEnum):
    """Every way a trial can end; :attr:`sentence` is what the person reads."""

    OK = "ok"
    STOPPED = "stopped"
    INFEASIBLE = "infeasible"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"

    @property
    def sentence(self) -> str:
        """The outcome in plain words."""
        return _SENTENCES[self]

    @property
    def trained(self) -> bool:
        """Whether the trial counts against the number of trials: it was trained, to the end or until stopped."""
        return self in (Outcome.OK, Outcome.STOPPED)

    @property
    def failed(self) -> bool:
        """Whether nobody asked for such an end."""
        return self in (Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, Outcome.CRASHED)


_SENTENCES = {
    Outcome.OK: "trained to the end",
    Outcome.STOPPED: "stopped early: trials that are not slower did better at the same epoch",
    Outcome.INFEASIBLE: "breaks a constraint; known before training, so no epoch was paid",
    Outcome.DIVERGED: "reported a value that is not finite",
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.CRASHED: "raised an error or lost its process",
}
