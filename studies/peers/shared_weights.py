"""What a supernet makes of every plan of a table: how well it ranks them, and whether it is worth its price as a prior.

    python studies/peers/shared_weights.py digits

Trains one supernet for as many epochs as one training of the table, which costs about four of them, and writes its
scores to ``tables/digits_shared.csv``. Prints their rank correlation with the means of the recorded trainings, and how
much of the front its first plans are worth.
"""

import argparse

import numpy as np
import torch
from rows import append, read
from scipy.stats import spearmanr
from tables import FOLDER
from tasks import RECORDINGS
from world import LATENCY, Table, World

from headtune import HeadPlan, LatencyProtocol
from headtune.execute.inline import InlineExecutor
from headtune.study.shortlist import shortlist
from headtune.trial.plan_costs import PlanCosts
from headtune.trial.plan_scores import PlanScore
from headtune.trial.reference import TaskObject
from headtune.trial.setup import TrialSetup
from headtune.trial.supernet import train_supernet

TRAININGS = 4
"""What a supernet costs, in trainings of one plan: each of its steps is four plans' steps."""

FIRST = 5
"""Plans of its shortlist that are trained first where it is a prior."""


def record(name: str) -> None:
    """Train the supernet, and write down what it makes of each plan."""
    torch.set_num_threads(1)
    recording = RECORDINGS[name]
    task = recording.task()
    space = recording.space(task)
    setup = TrialSetup(
        task=TaskObject(task),
        sites=space.sites,
        hold=recording.hold,
        weights="fresh",
        objectives=(recording.quality,),
        latency=LatencyProtocol(batch_size=2),
        needs_memory=False,
        present=HeadPlan.present(space.sites),
    )
    costs = PlanCosts(hold=recording.hold, latency=None)
    found = InlineExecutor().follow(train_supernet, setup, space, costs, recording.epochs, 0, say=print)
    for one in found:
        append(
            FOLDER / f"{name}_shared.csv",
            ["plan", "score"],
            [one.plan.label, f"{one.quality[recording.quality.metric]:.5g}"],
        )


def scores(name: str) -> dict[str, float]:
    """Plan → what the supernet makes of it."""
    return {plan: float(score) for plan, score in read(FOLDER / f"{name}_shared.csv")}


def first_plans(world: World) -> tuple[HeadPlan, ...]:
    """The supernet's shortlist, the most worth a training first; latencies are known."""
    recording = world.table.recording
    known, metric = scores(world.table.name), recording.quality.metric
    plans = recording.plans(recording.task())
    judged = [
        PlanScore(plan=plans[label], quality={metric: score}, costs={LATENCY.metric: world.table.latency[label]})
        for label, score in known.items()
        if world.feasible(label)
    ]
    return shortlist(judged, world.table.objectives)[:FIRST]


def main() -> None:
    """Record, and judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", choices=RECORDINGS)
    name = parser.parse_args().task
    if not scores(name):
        record(name)
    table, known = Table.read(name), scores(name)
    means = [np.mean([table.finals[plan, seed] for seed in range(table.recording.seeds)]) for plan in known]
    print(
        f"{name}: rank correlation with trainings {spearmanr(list(known.values()), means)[0]:.2f}, {len(known)} plans"
    )
    world = World.of(table, 0)
    plans = [plan.label for plan in first_plans(world)]
    print(f"its first {FIRST}, {' '.join(plans)}, are worth {world.worth(plans):.1%} of the front")


if __name__ == "__main__":
    main()
