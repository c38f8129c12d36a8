"""Rows of a CSV file that grows while a long run goes on."""

import csv
from collections.abc import Sequence
from pathlib import Path


def append(file: Path, header: Sequence[object], row: Sequence[object]) -> None:
    """Write a row, below the header where the file is new."""
    file.parent.mkdir(exist_ok=True)
    fresh = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as lines:
        csv.writer(lines, lineterminator="\n").writerows([header, row] if fresh else [row])


def read(file: Path) -> list[list[str]]:
    """Every row but the header; none where there is no file."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines))[1:]
