"""Does headtune's search find a front at least as good as full-length trials of the same total epochs?

    python studies/peers/same_epochs.py [--seeds 5]

Runs ``headtune search studies/digits_vit.yaml`` without its verification, then as many full-length trials as the epochs
of that allow, proposed by multivariate TPE, once for each seed, into ``runs/``. Every plan that a front claims is
trained anew on five other seeds and timed beside the present plan (``tables/digits_vit.csv``): the fronts are judged by
that. Run again, it goes on where it stopped.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path
from statistics import mean

import numpy as np
from record import time_plan, train
from scipy.stats import t
from tables import add_timing, add_training, timings, trainings
from tasks import RECORDINGS
from world import LATENCY

from headtune.pareto import hypervolume, reference_point

TASK = "digits_vit"
ROOT = Path(__file__).parents[2]


def search(folder: Path, *changes: str) -> Path:
    """One search, into a folder; a finished one is not run again."""
    asked = [f"output={folder}", "verify.seeds=0", *changes]
    if not (folder / "trials.csv").exists():
        words = [word for change in asked for word in ("--set", change)]
        command = [sys.executable, "-m", "headtune", "search", str(ROOT / "studies" / f"{TASK}.yaml"), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a table of a study."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def epochs_of(folder: Path) -> int:
    """What the trials of a search cost."""
    return sum(int(row["reports"] or 0) for row in rows(folder / "trials.csv"))


def front_of(folder: Path) -> list[str]:
    """The plans that a search claims."""
    claimed = [row for row in rows(folder / "front.csv") if row["on_front"] == "True"]
    return ["-".join(row[key] for key in row if key.startswith("heads:")) for row in claimed]


def judge(plans: set[str]) -> dict[str, tuple[float, float]]:
    """Each plan's mean quality over seeds that no search drew, and its latency over the present plan's."""
    seeds = range(RECORDINGS[TASK].seeds)
    done = {(one.plan, one.seed) for one in trainings(TASK)}
    for plan, seed in ((plan, seed) for plan in sorted(plans) for seed in seeds):
        if (plan, seed) not in done:
            add_training(TASK, train(TASK, plan, seed))
    for plan in sorted(plans - {one.plan for one in timings(TASK)}):
        add_timing(TASK, time_plan(TASK, plan))
    ratios = {one.plan: one.ratio for one in timings(TASK)}
    return {
        plan: (mean(one.final for one in trainings(TASK) if one.plan == plan), ratios[plan]) for plan in sorted(plans)
    }


def main() -> None:
    """Search, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds, epochs, runs = parser.parse_args().seeds, RECORDINGS[TASK].epochs, ROOT / "runs" / "same_epochs"
    pairs = []
    for seed in range(seeds):
        ours = search(runs / f"headtune-{seed}", f"seed={seed}")
        trials = round(epochs_of(ours) / epochs)
        plain = ("search.sampler=tpe", "search.stop_early=false", f"search.trials={trials}")
        full = search(runs / f"full-{seed}", f"seed={seed}", *plain)
        pairs.append((ours, full))
    true = judge({plan for pair in pairs for folder in pair for plan in front_of(folder)})
    goals = (RECORDINGS[TASK].quality, LATENCY)
    corner = reference_point(list(true.values()), goals)
    print("seed      epochs    hypervolume")
    print("       ours full     ours   full")
    volumes = []
    for seed, pair in enumerate(pairs):
        volumes.append([1e3 * hypervolume([true[plan] for plan in front_of(one)], goals, corner) for one in pair])
        print(f"{seed:4}   {epochs_of(pair[0]):4} {epochs_of(pair[1]):4}   {volumes[-1][0]:6.2f} {volumes[-1][1]:6.2f}")
    gain = np.subtract(*np.transpose(volumes))
    half = float(t.ppf(0.975, seeds - 1) * gain.std(ddof=1) / np.sqrt(seeds))
    print(f"ours less full: {gain.mean():.2f} ± {half:.2f} (95 %, thousandths of accuracy × latency ratio)")


if __name__ == "__main__":
    main()
