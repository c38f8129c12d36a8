"""What to train next: a combination of plan and params that was never tried."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from headtune.heads import HeadPlan
from headtune.pareto import Objective, non_dominated
from headtune.search.codec import Codec, Encoded
from headtune.search.draft import Draft, trial_key
from headtune.search.quiet import undisturbed
from headtune.search.sampler import Choice, SamplerName, build_sampler, choose_sampler
from headtune.search.seeds import derive
from headtune.search.shadow import proposals
from headtune.search.surrogate import Surrogate
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

_ASKS = 5
_STEPS = 200
_LISTED = 20_000
_CRASHES = 2


class Proposer:
    """Proposes from the records alone, without a memory of its own: a restart goes on as if nothing had happened.

    Args:
        codec: the combinations there are.
        objectives: what is optimised.
        limits: names of the constraints.
        sampler: who is asked.
        trials: of the whole study.
        seed: the study's.
    """

    def __init__(
        self,
        codec: Codec,
        *,
        objectives: Sequence[Objective],
        limits: Sequence[str],
        sampler: SamplerName,
        trials: int,
        seed: int,
    ) -> None:
        if sampler == "grid":
            next(codec.walk())
        self._codec = codec
        self._objectives = tuple(objectives)
        self._limits = tuple(limits)
        self._asked = sampler
        self._trials = trials
        self._seed = seed
        self._surrogate = Surrogate.of(codec, objectives, limits)

    def choose(self, records: Sequence[TrialRecord], left: int) -> Choice:
        """The sampler that proposes after *records*, with *left* trials to go."""
        size = self._codec.size
        unseen = None if size is None else size - len(self._seen_inside(records))
        return choose_sampler(
            self._asked, unseen=unseen, left=left, trials=self._trials, plain=self._surrogate is not None
        )

    def propose(self, records: Sequence[TrialRecord], choice: Choice) -> Draft | None:
        """The next training by the chosen sampler; ``None`` when every combination was tried.

        No combination is proposed twice, and no plan that crashed in two trials and was never trained.
        """
        if choice.name == "ehvi":
            return self._steered(records)
        seen = {trial_key(record.plan, record.params) for record in records}
        banned = _crashing(records)
        for encoded in self._candidates(choice, records):
            plan, params = self._codec.decode(encoded)
            if plan not in banned and trial_key(plan, params) not in seen:
                return Draft(kind="search", plan=plan, params=params)
        return None

    def believed(self, records: Sequence[TrialRecord]) -> dict[int, float]:
        """Number → quality without the noise of seeds, of finished trials; empty where no surrogate knows it."""
        with undisturbed():
            return {} if self._surrogate is None else self._surrogate.believed(records)

    def _steered(self, records: Sequence[TrialRecord]) -> Draft | None:
        """What the surrogate would train next."""
        if self._surrogate is None:
            return None
        rng = Random(derive("ask", self._seed, len(records)))
        with undisturbed():
            found = self._surrogate.best(records, rng, barred=_crashing(records))
        if found is None:
            return None
        plan, params = self._codec.decode(found)
        return Draft(kind="search", plan=plan, params=params)

    def _candidates(self, choice: Choice, records: Sequence[TrialRecord]) -> Iterator[Encoded]:
        """The sampler's proposals, then combinations near the front, then, where they can be listed, all there are."""
        if choice.name != "grid":
            seed = derive("ask", self._seed, len(records))
            sampler = build_sampler(choice, seed=seed, trials=self._trials)
            asked = proposals(sampler, records, self._codec, self._objectives, self._limits)
            yield from islice(asked, _ASKS)
            yield from self._nearby(records, Random(seed))
        if self._codec.size is not None and (choice.name == "grid" or self._codec.size <= _LISTED):
            yield from self._codec.walk()

    def _nearby(self, records: Sequence[TrialRecord], rng: Random) -> Iterator[Encoded]:
        """Combinations near the front's, in steps that grow; near any one where there is no front."""
        front = self._front(records) or [self._codec.sample(rng)]
        names = list(self._codec.distributions)
        for step in range(_STEPS):
            changed = rng.sample(names, min(len(names), 1 + step // 50))
            yield rng.choice(front) | {name: self._codec.sample_one(name, rng) for name in changed}

    def _front(self, records: Sequence[TrialRecord]) -> list[Encoded]:
        offers = [record for record in records if record.on_offer]
        values = [[record.metrics[goal.metric] for goal in self._objectives] for record in offers]
        best = [offers[index] for index in non_dominated(values, self._objectives)] if offers else []
        encoded = [self._codec.encode(record.plan, record.params) for record in best]
        return [found for found in encoded if found is not None]

    def _seen_inside(self, records: Sequence[TrialRecord]) -> set[str]:
        inside = [record for record in records if self._codec.encode(record.plan, record.params) is not None]
        return {trial_key(record.plan, record.params) for record in inside}


def _crashing(records: Sequence[TrialRecord]) -> set[HeadPlan]:
    crashes = Counter(record.plan for record in records if record.outcome in (Outcome.CRASHED, Outcome.OUT_OF_MEMORY))
    trained = {record.plan for record in records if record.trained}
    return {plan for plan, count in crashes.items() if count >= _CRASHES} - trained
