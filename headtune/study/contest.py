"""The finalists of a study in a race: who takes part, and what follows from the trainings so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headtune.pareto import Objective
from headtune.search import Retraining, Wanted
from headtune.study.finalists import identity
from headtune.study.nearby import near_finalists
from headtune.study.racing import Pair, Racer, Rules, Standing, differences, stand
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

Repeats = Mapping[int, TrialRecord]
"""Repeat, from 1 → the last training of it."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What the race of a study's finalists is decided by; all that its methods say follows from the trainings alone.

    Attributes:
        trials: the search's.
        chosen: those that are judged again for sure.
        objectives: the study's.
        seeds: that each finalist gets.
        most: seeds that one gets at most.
        near: plans at most that are added since they may belong on the front.
    """

    trials: Sequence[TrialRecord]
    chosen: Sequence[TrialRecord]
    objectives: Sequence[Objective]
    seeds: int
    most: int
    near: int

    @property
    def rules(self) -> Rules:
        """Of the race; the qualities share its level."""
        return Rules(seeds=self.seeds, most=self.most, metrics=sum(not goal.measured for goal in self.objectives))

    def entrants(self, trainings: Iterable[TrialRecord]) -> tuple[TrialRecord, ...]:
        """The trials whose plans take part: the chosen ones, and those near them once these have their first seeds."""
        repeats = _by_plan(trainings)
        first = [_until(repeats.get(identity(trial), {}), self.seeds) for trial in self.chosen]
        if any(len(trained) < self.seeds for trained in first):
            return tuple(self.chosen)
        fresh = [_values(trained.values()) for trained in first]
        return *self.chosen, *near_finalists(self.trials, self.objectives, self.chosen, fresh, self.near)

    def standing(self, entrants: Sequence[TrialRecord], trainings: Iterable[TrialRecord]) -> Standing:
        """Where the race of the *entrants* is."""
        quality = next(goal for goal in self.objectives if not goal.measured)
        speed = next((goal for goal in self.objectives if goal.measured), None)
        repeats = _by_plan(trainings)
        racers = [
            Racer(
                losses=_losses(repeats.get(identity(trial), {}), quality.metric, quality),
                cost=0.0 if speed is None else trial.metrics[speed.metric],
                able=trial.feasible and trial.in_space,
            )
            for trial in entrants
        ]
        return stand(racers, self.rules)

    def wanted(self, trainings: Sequence[TrialRecord]) -> Wanted:
        """What to train next."""
        entrants = self.entrants(trainings)
        standing = self.standing(entrants, trainings)
        looked = [(repeat, plan) for plan, look in enumerate(standing.looks) for repeat in range(1, look + 1)]

        def retrainings(pairs: Iterable[tuple[int, int]]) -> list[Retraining]:
            return [_retraining(entrants[plan], repeat) for repeat, plan in sorted(pairs)]

        return Wanted(needed=retrainings({*looked, *standing.needed}), ahead=retrainings(standing.ahead))

    def better(
        self, entrants: Sequence[TrialRecord], standing: Standing, trainings: Iterable[TrialRecord]
    ) -> dict[str, frozenset[Pair]]:
        """The differences that were found: metric → pairs of entrants, the better one first.

        Of the task's test metrics, which are a family of their own, the better one is the lower one: which direction
        is better is the task's secret.
        """
        repeats = _by_plan(trainings)
        rows = [repeats.get(identity(trial), {}) for trial in entrants]
        goals = {goal.metric: goal for goal in self.objectives if not goal.measured}
        tests = dict.fromkeys(name for row in rows for trained in row.values() for name in trained.test_metrics)
        test_rules = Rules(seeds=self.seeds, most=self.most, metrics=max(len(tests), 1))
        return {
            metric: differences([_losses(row, metric, goal) for row in rows], standing.looks, self.rules)
            for metric, goal in goals.items()
        } | {
            metric: differences([_losses(row, metric, None) for row in rows], standing.looks, test_rules)
            for metric in tests
        }


def trained_until(trial: TrialRecord, trainings: Iterable[TrialRecord], look: int) -> list[TrialRecord]:
    """The last training of each repeat of *trial* up to the *look*, in order."""
    repeats = _by_plan(trainings).get(identity(trial), {})
    return list(_until(repeats, look).values())


def _by_plan(trainings: Iterable[TrialRecord]) -> dict[object, dict[int, TrialRecord]]:
    found: dict[object, dict[int, TrialRecord]] = {}
    for training in trainings:
        found.setdefault(identity(training), {})[training.repeat] = training
    return found


def _until(repeats: Repeats, look: int) -> dict[int, TrialRecord]:
    return {repeat: repeats[repeat] for repeat in sorted(repeats) if repeat <= look}


def _values(trainings: Iterable[TrialRecord]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for training in trainings:
        if training.outcome is Outcome.OK:
            for metric, value in training.metrics.items():
                found.setdefault(metric, []).append(value)
    return found


def _losses(repeats: Repeats, metric: str, goal: Objective | None) -> dict[int, float | None]:
    """Repeat → loss; ``None`` for a training without that metric."""
    values = {
        repeat: ({**training.metrics, **training.test_metrics}.get(metric) if training.outcome is Outcome.OK else None)
        for repeat, training in repeats.items()
    }
    return {repeat: value if value is None or goal is None else goal.loss(value) for repeat, value in values.items()}


def _retraining(trial: TrialRecord, repeat: int) -> Retraining:
    return Retraining(plan=trial.plan, params=trial.params, repeat=repeat, label=trial.label, in_space=trial.in_space)
