"""Plays headtune's verification on planted plans with recorded noise: does it find what is there, and nothing else?

    python studies/peers/noise.py studies/peers/tables/digits.csv [--repeats 400]

Twenty plans of distinct latencies are trained once, as a search would, under a limit of latency that none breaks. The
finalists, the race and the verdict are those of headtune; only the trainings are drawn: a plan's true quality and a
residual of the table, which is a training's quality less its plan's mean. Either all plans are equal, or one of them,
anywhere in the order of latencies, is better by three times the residuals' standard deviation.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean

import numpy as np
from tables import read_trainings

from headtune import HeadPlan, Objective
from headtune.heads import HeadCount
from headtune.study.contest import Contest, trained_until
from headtune.study.finalists import choose_finalists
from headtune.study.judging import judge
from headtune.study.racing import LEVEL, Look
from headtune.study.record import Finalist, Verdict
from headtune.trial import Outcome, TrialRecord

PLANS = 20
SEEDS = 3
MOST = 20
TOP = 5
WIDTHS = 3.0
"""By how many standard deviations the better plan is better."""

REPEATS = 400

FALSE = 28
"""Repeats of 400 with equal plans in which a difference may be found."""

RIGHT = 372
"""Repeats of 400 with one better plan in which it must be the recommended one."""

GOALS = (
    Objective(metric="quality", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


@dataclass(frozen=True)
class Played:
    """What came of one repeat.

    Attributes:
        found: whether any difference was found, or a finalist is marked as no tie.
        right: whether the better plan is the recommended one.
        seeds: trainings of the verification.
    """

    found: bool
    right: bool
    seeds: int


def residuals(file: Path) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Each training's quality less its plan's mean, so enlarged that its spread is that of a training."""
    rows: dict[str, list[float]] = {}
    for one in read_trainings(file):
        rows.setdefault(one.plan, []).append(one.final)
    several = [row for row in rows.values() if len(row) > 1]
    return np.array([(value - fmean(row)) * sqrt(len(row) / (len(row) - 1)) for row in several for value in row])


def training(place: int, repeat: int, quality: float) -> TrialRecord:
    """One training of the plan at a *place* in the order of latencies."""
    return TrialRecord(
        number=place,
        kind="verify" if repeat else "search",
        label="",
        plan=HeadPlan.of({"a": HeadCount(place + 1, place + 1, 8)}),
        params={},
        repeat=repeat,
        seed=repeat,
        outcome=Outcome.OK,
        metrics={"quality": quality, "latency_ms": 1 + place / PLANS},
        violations={"latency_ms": place / PLANS - 1},
    )


def play(noise: Sequence[float], repeat: int, *, widths: float, races: bool) -> Played:
    """One repeat: the race, and the verdict on it.

    Args:
        noise: residuals to draw from.
        repeat: of this number everything follows.
        widths: by how many standard deviations one plan is better.
        races: whether close plans get more seeds and all comparisons share one level; else each plan of the front gets
            the same seeds, and each pair is compared at 5 %.
    """
    chance = np.random.default_rng(repeat)
    drawn = chance.choice(noise, (PLANS, MOST + 1))
    better = int(chance.integers(PLANS))
    drawn[better] += widths * float(np.std(noise))
    searched = [training(place, 0, drawn[place, 0]) for place in range(PLANS)]
    worst = (float(drawn[:, 0].min()) - float(np.std(noise)), 3.0)
    chosen = choose_finalists(searched, GOALS, worst, TOP)
    contest = Contest(searched, chosen, GOALS, seeds=SEEDS, most=MOST if races else SEEDS, near=TOP if races else 0)
    trained = [training(one.number, seed, drawn[one.number, seed]) for one in chosen for seed in range(1, SEEDS + 1)]
    entrants = contest.entrants(trained)
    while (standing := contest.standing(entrants, trained)).needed:
        at = [(seed, entrants[plan].number) for seed, plan in standing.needed]
        trained += [training(place, seed, drawn[place, seed]) for seed, place in at]
    finalists = [
        finalist(one, trained_until(one, trained, look)) for one, look in zip(entrants, standing.looks, strict=True)
    ]
    found = contest.better(entrants, standing, trained)
    if not races:
        pairs = Look([[-value for value in one.quality["quality"]] for one in finalists], LEVEL).better(
            range(len(finalists))
        )
        found = {"quality": pairs}
    marked, verdict = judge(finalists, GOALS, budget=True, better=found, best=standing.best)
    assert verdict.recommended is not None
    return Played(
        found=stated(marked, verdict),
        right=entrants[verdict.recommended].number == better,
        seeds=len(trained),
    )


def finalist(trial: TrialRecord, trained: Sequence[TrialRecord]) -> Finalist:
    """The trial as it is judged."""
    return Finalist(
        plan=trial.plan,
        params={},
        labels=(),
        measured={"latency_ms": trial.metrics["latency_ms"]},
        latency=None,
        quality={"quality": tuple(one.metrics["quality"] for one in trained)},
        test={},
        tied_with_best=False,
        feasible=True,
    )


def stated(finalists: Sequence[Finalist], verdict: Verdict) -> bool:
    """Whether anything is said to be a difference."""
    marked = any(not one.tied_with_best for one in finalists)
    said = not any(finding.startswith("Heads make no significant difference") for finding in verdict.findings)
    return marked or said or any(verdict.better.values())


def wilson(hits: int, repeats: int) -> str:
    """A share with its 95 % interval (Wilson, 1927)."""
    z = 1.96
    share = hits / repeats
    middle = (share + z * z / 2 / repeats) / (1 + z * z / repeats)
    half = z * sqrt(share * (1 - share) / repeats + z * z / 4 / repeats**2) / (1 + z * z / repeats)
    return f"{hits:4d} of {repeats}  {share:6.1%} [{max(middle - half, 0):.1%}, {middle + half:.1%}]"


def main() -> int:
    """Play; 0 when both bounds hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path, help="a table of recorded trainings")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    asked = parser.parse_args()
    noise = residuals(asked.table).tolist()
    print(f"{asked.table.name}: {len(noise)} residuals of standard deviation {np.std(noise):.3g}; {PLANS} plans")
    print(f"{'':46}{'a difference found':36}{'the better plan recommended':36}seeds")
    held = True
    for name, widths in (("all plans equal", 0.0), (f"one better by {WIDTHS:g} sd", WIDTHS)):
        for how, races in ((f"race, {SEEDS} to {MOST} seeds", True), (f"{SEEDS} seeds, each pair at 5 %", False)):
            played = list(map(partial(play, noise, widths=widths, races=races), range(asked.repeats)))
            found, right = sum(one.found for one in played), sum(one.right for one in played)
            seen = wilson(right, asked.repeats) if widths else ""
            seeds = fmean(one.seeds for one in played)
            print(
                f"{name:19}{how:27}{wilson(found, asked.repeats):36}{seen:36}{seeds:5.1f} of {PLANS * MOST}", flush=True
            )
            if races:
                held &= right * 400 >= RIGHT * asked.repeats if widths else found * 400 <= FALSE * asked.repeats
    if asked.repeats < REPEATS:
        print(f"too few repeats to tell; {REPEATS} are meant")
        return 0
    print("holds" if held else "does not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
