"""The figures of the table: ours, and those that were published elsewhere."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Literal, get_args

HEADS = (1, 2, 4, 8)
LENGTHS = (128, 512, 1024)

Attention = Literal["written out", "SDPA"]
Mode = Literal["forward", "train_step"]
GROUPS = tuple(product(get_args(Mode), get_args(Attention)))

WORDS: dict[Mode, str] = {"forward": "forward pass", "train_step": "training step"}

OURS, THEIRS = "measured", "published elsewhere on a V100, not ours"
PUBLISHED_MS = {128: 12.3, 512: 45.7, 1024: 162.4}
PUBLISHED_PERCENT = {
    128: {2: 6.5, 4: 21.1, 8: 49.6},
    512: {2: 5.5, 4: 17.3, 8: 40.7},
    1024: {2: 5.4, 4: 16.8, 8: 40.1},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of the table: a row of the CSV file.

    Attributes:
        source: who measured it; what a published figure does not tell is empty.
        median_ms: of the block.
        one_head_ms: of the block of one head that it took turns with.
        overhead_percent: median over pairs of the block's time over the other's, less one.
        low_percent: lower end of its 95 % interval.
        high_percent: upper end.
        pairs: that were timed.
        settled: whether the measurement became as precise as it should.
        doubts: what speaks against it.
    """

    source: str
    attention: Attention | None
    mode: Mode | None
    seq_len: int
    heads: int
    head_dim: int
    batch_size: int
    dtype: str
    threads: int | None
    device_name: str
    median_ms: float | None
    one_head_ms: float
    overhead_percent: float
    low_percent: float | None = None
    high_percent: float | None = None
    pairs: int | None = None
    settled: bool | None = None
    doubts: str = ""


def published() -> Iterator[Cell]:
    """The figures of the other table, which says neither how it attends nor whether it trains."""
    for seq_len, heads in product(LENGTHS, HEADS):
        yield Cell(
            source=THEIRS,
            attention=None,
            mode=None,
            seq_len=seq_len,
            heads=heads,
            head_dim=512 // heads,
            batch_size=32,
            dtype="",
            threads=None,
            device_name="V100",
            median_ms=PUBLISHED_MS[seq_len] if heads == 1 else None,
            one_head_ms=PUBLISHED_MS[seq_len],
            overhead_percent=0.0 if heads == 1 else PUBLISHED_PERCENT[seq_len][heads],
        )


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    """All figures, those of others last."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Cell.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(
            {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in asdict(cell).items()}
            for cell in cells
        )


def picked(cells: Sequence[Cell], **wanted: object) -> list[Cell]:
    """Those whose attributes are as wanted."""
    return [cell for cell in cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def one_head_ms(cells: Sequence[Cell]) -> str:
    """What one head takes, in whole milliseconds where they say enough: the median over the blocks beside it."""
    ms = median(cell.one_head_ms for cell in cells)
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"
