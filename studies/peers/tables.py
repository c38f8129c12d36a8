"""Recorded tables as files: a row for each training with its learning curve, and a row for each plan's latency."""

from dataclasses import dataclass
from pathlib import Path

from rows import append, read

FOLDER = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        plan: its heads by site, as plans print themselves.
        seed: of the training.
        final: the quality of the weights that it ends with.
        curve: the quality after each epoch.
    """

    plan: str
    seed: int
    final: float
    curve: tuple[float, ...]


@dataclass(frozen=True)
class Timing:
    """One plan's latency over the present plan's, with its 95 % interval."""

    plan: str
    ratio: float
    low: float
    high: float


def trainings_file(name: str) -> Path:
    """Where a table's trainings are."""
    return FOLDER / f"{name}.csv"


def timings_file(name: str) -> Path:
    """Where a table's latencies are."""
    return FOLDER / f"{name}_latency.csv"


def read_trainings(file: Path) -> tuple[Training, ...]:
    """Every training of a file."""
    return tuple(
        Training(plan, int(seed), float(final), tuple(map(float, curve))) for plan, seed, final, *curve in read(file)
    )


def trainings(name: str) -> tuple[Training, ...]:
    """Every training that was recorded so far."""
    return read_trainings(trainings_file(name))


def timings(name: str) -> tuple[Timing, ...]:
    """Every latency that was recorded so far."""
    return tuple(Timing(plan, *map(float, numbers)) for plan, *numbers in read(timings_file(name)))


def add_training(name: str, one: Training) -> None:
    """Write a training down."""
    header = ["plan", "seed", "final", *(f"epoch_{epoch}" for epoch in range(1, len(one.curve) + 1))]
    append(trainings_file(name), header, [one.plan, one.seed, *map(_brief, (one.final, *one.curve))])


def add_timing(name: str, one: Timing) -> None:
    """Write a latency down."""
    row = [one.plan, *map(_brief, (one.ratio, one.low, one.high))]
    append(timings_file(name), ["plan", "ratio", "low", "high"], row)


def _brief(value: float) -> str:
    return f"{value:.5g}"
