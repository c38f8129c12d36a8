"""Which plans behind the front of the search may belong on it, given the noise of its single seed."""

from collections.abc import Mapping, Sequence

from headtune.pareto import Objective
from headtune.study.chances import Seen, front_probabilities, timed, trained
from headtune.study.finalists import identity
from headtune.study.noise import SeedNoise
from headtune.trial.record import TrialRecord

NEAR = 0.1
"""A plan behind the front is judged again if it belongs on it with at least this probability."""


def near_finalists(
    trials: Sequence[TrialRecord],
    objectives: Sequence[Objective],
    chosen: Sequence[TrialRecord],
    fresh: Sequence[Mapping[str, Sequence[float]]],
    most: int,
) -> tuple[TrialRecord, ...]:
    """At most *most* further trials, those that are most probably on the front.

    The search trained each plan on one seed, so a plan that looks a little worse than the front may be the better one.
    How little is told by the fresh seeds of the *chosen* trials, which are also better estimates of these than what
    chose them. Without two seeds of one of them the noise is unknown, and nothing is added.

    Args:
        trials: the search's.
        objectives: the study's.
        chosen: the finalists so far.
        fresh: of each of these, metric → value per fresh seed.
        most: trials at most.
    """
    qualities = [goal for goal in objectives if not goal.measured]
    noises = {goal.metric: SeedNoise.of([row.get(goal.metric, ()) for row in fresh]) for goal in qualities}
    taken = set(map(identity, chosen))
    offered = {identity(trial): trial for trial in trials if trial.on_offer and trial.in_space}
    rest = [trial for key, trial in offered.items() if key not in taken]
    if not rest or not all(noise.freedom for noise in noises.values()):
        return ()

    def judged(plan: int, goal: Objective) -> Seen:
        if goal.measured:
            return _timed(chosen[plan], goal)
        return trained(goal, fresh[plan][goal.metric], noises[goal.metric], plan)

    def searched(trial: TrialRecord, goal: Objective) -> Seen:
        if goal.measured:
            return _timed(trial, goal)
        noise = noises[goal.metric]
        return Seen(loss=goal.loss(trial.metrics[goal.metric]), error=noise.sd, freedom=noise.freedom)

    able = [
        plan
        for plan, trial in enumerate(chosen)
        if trial.feasible and trial.in_space and all(fresh[plan].get(goal.metric) for goal in qualities)
    ]
    seen = [[judged(plan, goal) for goal in objectives] for plan in able]
    seen += [[searched(trial, goal) for goal in objectives] for trial in rest]
    chances = front_probabilities(seen)[len(able) :]
    likely = [place for place in range(len(rest)) if chances[place] >= NEAR]
    return tuple(rest[place] for place in sorted(likely, key=lambda place: -chances[place])[:most])


def _timed(trial: TrialRecord, goal: Objective) -> Seen:
    return timed(goal, trial.metrics[goal.metric], trial.latency, trial.shorter)
