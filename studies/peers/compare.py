"""Plays every search on a recorded table, side by side: how many epochs until what it would claim is worth the front?

    python studies/peers/compare.py digits [text_width ...] [--repeats 20] [--minutes 30] [--levers]

Each repeat holds out the greater half of each plan's trainings, which judges, and gives every search the other half.
With ``--levers`` it plays headtune's own search with one part changed instead.
Writes ``results.csv``, a row for each run; run again, it goes on where it stopped. ``python studies/peers/summary.py``
makes the table and the picture of it.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from itertools import product
from math import inf, nan
from pathlib import Path

import optuna
from by_hand import BY_HAND
from by_tune import optuna_with_asha
from ours import HEADTUNE, LEVERS
from play import LEVELS, Played, Search
from rows import append, read
from tasks import RECORDINGS
from threadpoolctl import threadpool_limits
from world import Table, World

SEARCHES: dict[str, Search] = {**BY_HAND, "OptunaSearch + ASHA": optuna_with_asha, **HEADTUNE}
"""By the names that the tables show."""

_PLAYERS = {**SEARCHES, **{name: lever for levers in LEVERS.values() for name, lever in levers.items()}}

TRIALS = 60

RESULTS = Path(__file__).parent / "results.csv"

HEADER = ("table", "scenario", "search", "repeat", *(f"epochs_to_{level:.2f}" for level in LEVELS))


def budget_of(table: Table) -> float:
    """A latency that two fifths of the plans meet."""
    return sorted(table.latency.values())[round(0.4 * len(table.plans))]


def play(table: Table, scenario: str, search: str, repeat: int) -> Played:
    """One run of one search.

    Args:
        table: what it plays on.
        scenario: ``one at a time``, ``budget`` (on latency, one at a time) or ``eight at a time``.
        search: its name.
        repeat: which seeds judge, and what the search draws.
    """
    world = World.of(table, repeat, budget_of(table) if scenario == "budget" else None)
    return _PLAYERS[search](
        world, min(TRIALS, len(table.plans) // 2), 8 if scenario == "eight at a time" else 1, repeat
    )


SCENARIOS = ("one at a time", "budget", "eight at a time")


def runs(asked: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Table, scenario, search and repeat of all that is to be there, every search side by side."""
    searches = LEVERS if asked.levers else dict.fromkeys(SCENARIOS, SEARCHES)
    for repeat, name, scenario in product(range(asked.repeats), asked.tables, searches):
        for search in searches[scenario]:
            if search in (asked.only or searches[scenario]):
                yield name, scenario, search, str(repeat)


def main() -> int:
    """Play what is missing; 0 when all is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="+", choices=RECORDINGS)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=inf, help="begin nothing after so many minutes")
    parser.add_argument("--only", choices=_PLAYERS, action="append", help="play only this search")
    parser.add_argument("--levers", action="store_true", help="play headtune with one part changed")
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("ray.tune.search.optuna").setLevel(logging.ERROR)  # that it translates Tune's space
    deadline = time.monotonic() + 60 * asked.minutes
    done = {tuple(row[:4]) for row in read(RESULTS)}
    tables = {name: Table.read(name) for name in asked.tables}
    for run in runs(asked):
        if run in done:
            continue
        if time.monotonic() > deadline:
            print("not yet whole; run the same command again")
            return 1
        name, scenario, search, repeat = run
        with threadpool_limits(1):  # small matrices, so that more threads would only wait for one another
            played = play(tables[name], scenario, search, int(repeat))
        reached = [played.reached.get(level, nan) for level in LEVELS]
        append(RESULTS, HEADER, [*run, *reached])
        print(f"{', '.join(run)}: {reached}", file=sys.stderr, flush=True)
    print(f"recorded in {RESULTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
