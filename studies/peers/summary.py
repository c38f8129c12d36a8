"""The table and the picture of what ``compare.py`` has played.

    python studies/peers/summary.py

Prints a table for every recorded table and scenario, headtune over the best peer of each, and headtune with one part
changed over headtune; draws ``results.png``. Epochs are in full trainings. A run that never reached a level counts with
all that it might have spent. Intervals are 95 %, by the bootstrap over repeats (Efron 1979); ratios are paired by
repeat, and the best peer is the one with the fewest mean epochs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np
from compare import RESULTS, SCENARIOS, SEARCHES, TRIALS
from ours import HEADTUNE, LEVERS
from play import LEVELS
from rows import read
from tasks import RECORDINGS

mpl.use("Agg")
from matplotlib import pyplot as plt

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

PICTURE = Path(__file__).parent / "results.png"

DRAWS = 4000


@dataclass(frozen=True)
class Runs:
    """All repeats of one search.

    Attributes:
        trainings: (repeat, level) full trainings that were spent when the level was reached.
        missed: level by level, how many repeats never reached it.
    """

    trainings: Array
    missed: tuple[int, ...]

    def interval(self, level: int, beside: "Runs | None" = None) -> tuple[float, float, float]:
        """Mean at a level, or its ratio to that of *beside*, and the interval's ends."""
        drawn = np.random.default_rng(0).integers(len(self.trainings), size=(DRAWS, len(self.trainings)))
        ours = self.trainings[:, level]
        theirs = np.ones_like(ours) if beside is None else beside.trainings[:, level]
        low, high = np.quantile(ours[drawn].mean(1) / theirs[drawn].mean(1), (0.025, 0.975))
        return float(ours.mean() / theirs.mean()), float(low), float(high)


Panel = tuple[str, str, Mapping[str, Runs]]
"""A table, a scenario, and what was played there by search."""


def runs(table: str, scenario: str, searches: Collection[str]) -> dict[str, Runs]:
    """What was played on a table, by search; only the repeats that each of the searches has played."""
    epochs = RECORDINGS[table].epochs
    rows = [row for row in read(RESULTS) if row[:2] == [table, scenario]]
    played = {search: {int(row[3]) for row in rows if row[2] == search} for search in searches}
    common = set.intersection(*played.values()) if all(played.values()) else set()
    found = {}
    for search in searches:
        mine = sorted((row for row in rows if row[2] == search and int(row[3]) in common), key=lambda row: int(row[3]))
        values = np.array([[float(value) for value in row[4:]] for row in mine]).reshape(-1, len(LEVELS))
        missed = tuple(int(count) for count in np.isnan(values).sum(0))
        found[search] = Runs(np.nan_to_num(values / epochs, nan=TRIALS), missed)
    return found if common else {}


def best_peer(found: Mapping[str, Runs], level: int) -> str:
    """The peer with the fewest trainings."""
    return min(
        (name for name in found if name not in HEADTUNE), key=lambda name: found[name].trainings[:, level].mean()
    )


def cell(one: Runs, level: int) -> str:
    """Mean trainings to a level with their interval, and how many repeats never reached it."""
    mean, low, high = one.interval(level)
    never = f" ({one.missed[level]} never)" if one.missed[level] else ""
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]{never}"


def print_table(table: str, scenario: str, found: Mapping[str, Runs]) -> None:
    """Trainings to each level."""
    repeats = len(next(iter(found.values())).trainings)
    print(f"\n{table}, {scenario}: full trainings until the claimed front is worth the level, {repeats} repeats")
    print(f"{'':24}" + "".join(f"{level:>30.0%}" for level in LEVELS))
    for name, one in found.items():
        print(f"{name:24}" + "".join(f"{cell(one, level):>30}" for level in range(len(LEVELS))))


def print_ratios(panels: Sequence[Panel], level: int) -> None:
    """headtune beside the best peer of each table and scenario."""
    ours = next(iter(HEADTUNE))
    print(f"\nfull trainings until the claimed front is worth {LEVELS[level]:.0%}")
    print(f"{'':32}{ours:>30}{'best peer':>30}  {'':20}{'ratio':>18}")
    for table, scenario, found in panels:
        peer = best_peer(found, level)
        ratio, low, high = found[ours].interval(level, found[peer])
        cells = f"{cell(found[ours], level):>30}{cell(found[peer], level):>30}  {peer:20}"
        print(f"{f'{table}, {scenario}':32}{cells}{f'{ratio:.2f} [{low:.2f}, {high:.2f}]':>18}")


def print_levers(table: str, scenario: str) -> None:
    """headtune with one part changed, over headtune as it comes."""
    whole = next(iter(HEADTUNE))
    pairs = {lever: runs(table, scenario, (whole, lever)) for lever in LEVERS[scenario]}
    if not any(pairs.values()):
        return
    print(f"\n{table}, {scenario}: full trainings of headtune with one part changed, over headtune's as it comes")
    print(f"{'':24}" + "".join(f"{level:>30.0%}" for level in LEVELS) + "   repeats")
    for lever, found in pairs.items():
        if found:
            ratios = [found[lever].interval(level, found[whole]) for level in range(len(LEVELS))]
            cells = "".join(f"{f'{ratio:.2f} [{low:.2f}, {high:.2f}]':>30}" for ratio, low, high in ratios)
            print(f"{lever:24}{cells}{len(found[lever].trainings):>10}")


def draw(panels: Sequence[Panel]) -> None:
    """Dots with intervals at 95 % of the hypervolume: a row for each table, a column for each scenario."""
    rows = list(dict.fromkeys(table for table, _, _ in panels))
    figure, axes = plt.subplots(
        len(rows), len(SCENARIOS), figsize=(11, 0.8 + 2.1 * len(rows)), sharex=True, layout="constrained", squeeze=False
    )
    for table, scenario, found in panels:
        axis = axes[rows.index(table), SCENARIOS.index(scenario)]
        for place, (name, one) in enumerate(reversed(list(found.items()))):
            mean, low, high = one.interval(LEVELS.index(0.95))
            color = "#d1495b" if name in HEADTUNE else "#5b6b7b"
            axis.plot([low, high], [place, place], color=color, linewidth=2, clip_on=False)
            axis.plot(mean, place, "o", color=color, clip_on=False)
        axis.set_yticks(range(len(found)), list(found)[::-1])
        axis.label_outer()
        axis.set_title(f"{table}, {scenario}", loc="left", fontsize=10)
        axis.set_xlim(0, TRIALS)
        axis.grid(axis="x", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(f"full trainings until the claimed front is worth 95 % of the true one; {TRIALS} where never")
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Print and draw."""
    panels = [(table, scenario, runs(table, scenario, SEARCHES)) for table in RECORDINGS for scenario in SCENARIOS]
    panels = [panel for panel in panels if panel[2]]
    for panel in panels:
        print_table(*panel)
    for table, scenario in product(RECORDINGS, LEVERS):
        print_levers(table, scenario)
    if panels:
        for level in range(len(LEVELS)):
            print_ratios(panels, level)
        draw(panels)
        print(f"\ndrawn in {PICTURE.name}")
    else:
        print("nothing is played yet: python studies/peers/compare.py digits")


if __name__ == "__main__":
    main()
