"""Where things are written: results on stdout, everything else on stderr."""

import json
import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_WIDE = 10_000


def stderr() -> Console:
    """The console for progress, notes and errors."""
    return Console(file=sys.stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)


def say(message: str, mark: str = "") -> None:
    """Write a line for the person on stderr, after a mark such as ``error``."""
    text = Text(f"{mark}: ", style="bold red") if mark else Text()
    stderr().print(text.append(message, style="not bold default"))


def show(*results: RenderableType) -> None:
    """Write results on stdout; where that is no terminal, tables are as wide as they need."""
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    for result in results:
        console.print(result)


def show_json(document: object) -> None:
    """Write *document* as JSON on stdout; where that cannot hold every character, with escapes."""
    encoding = (sys.stdout.encoding or "utf-8").lower()
    print(json.dumps(document, indent=2, ensure_ascii=not encoding.startswith("utf"), allow_nan=False))


def table(*columns: str, numbers: int = 0) -> Table:
    """An empty table; the last *numbers* of its columns hold numbers."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index >= len(columns) - numbers else "left")
    return made
