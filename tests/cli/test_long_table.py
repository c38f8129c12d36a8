from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Console

from headtune.cli.long_table import long_table
from headtune.timing import LongVariant

REFUSED = LongVariant(name="checkpointing", mode="train_step", refused="no list of layers holds the sites")


class Details:
    """All that the table reads."""

    def __init__(self, long: dict[str, tuple[LongVariant, ...]]) -> None:
        self.long = long


def shown(long: dict[str, tuple[LongVariant, ...]]) -> str:
    details: Any = Details(long)
    console = Console(file=StringIO(), width=200)
    for part in long_table(details):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_row_for_each_variant_and_the_reasons_of_those_that_cannot_be_had(window_variant: LongVariant) -> None:
    text = shown({"present": (window_variant, REFUSED), "largest": (replace(window_variant, memory_mb=None), REFUSED)})
    rows = [line.split() for line in text.splitlines()]
    assert ["present", "window", "of", "128", "0.25", "0.2", "–", "0.3", "5", "20", "10", "40"] in rows
    assert ["largest", "window", "of", "128", "0.25", "0.2", "–", "0.3", "5", "20", "–", "40"] in rows
    assert "present, largest: no checkpointing (train_step): no list of layers holds the sites" in text


def test_short_sequences_have_no_table() -> None:
    details: Any = Details({})
    assert long_table(details) == []
