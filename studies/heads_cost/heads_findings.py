"""The page in words: the table, and what the figures show."""

from collections.abc import Iterator, Sequence
from textwrap import fill

import torch
from cells import GROUPS, HEADS, OURS, THEIRS, WORDS, Cell, one_head_ms, picked


def quoted(cell: Cell) -> str:
    """An overhead with its interval."""
    if cell.low_percent is None or cell.high_percent is None:
        return f"{cell.overhead_percent:+.1f} %"
    return f"{cell.overhead_percent:+.1f} % [{cell.low_percent:+.1f}, {cell.high_percent:+.1f}]"


def ends(cell: Cell) -> tuple[float, float]:
    """The interval of a figure of ours."""
    assert cell.low_percent is not None
    assert cell.high_percent is not None
    return cell.low_percent, cell.high_percent


def differs(cell: Cell) -> bool:
    """Whether its interval leaves 0 out."""
    low, high = ends(cell)
    return not low <= 0 <= high


def trend(cells: Sequence[Cell]) -> str:
    """How an overhead moves from the shortest to the longest sequence, where that is beyond both intervals."""
    (low_short, high_short), (low_long, high_long) = ends(cells[0]), ends(cells[-1])
    if low_long > high_short:
        return "which grows with the length"
    return "which shrinks with the length" if high_long < low_short else "with no clear trend in length"


def findings(cells: Sequence[Cell]) -> str:
    """What the figures show, in a paragraph."""
    ours, most = picked(cells, source=OURS), max(HEADS)
    said = []
    for mode, attention in GROUPS:
        line = picked(ours, mode=mode, attention=attention, heads=most)
        group = [cell for cell in picked(ours, mode=mode, attention=attention) if cell.heads > 1]
        costs = ", ".join(f"{quoted(cell)} at {cell.seq_len}" for cell in line)
        words = "written-out attention" if attention == "written out" else "SDPA"
        said.append(
            f"In a {WORDS[mode]} with {words}, {most} heads cost {costs} positions, {trend(line)}; "
            f"{sum(map(differs, group))} of {len(group)} overheads of this kind differ from 0 beyond their interval."
        )
    control = picked(ours, heads=1)
    worst = max(control, key=lambda cell: abs(cell.overhead_percent))
    said.append(
        f"One head beside one head, where nothing differs, came out at {quoted(worst)} at worst, and beyond its "
        f"interval in {sum(map(differs, control))} of {len(control)} cases: smaller overheads than that mean little."
    )
    said.extend(beside_published(cells))
    doubtful = [cell for cell in ours if cell.doubts]
    if doubtful:
        said.append(f"{len(doubtful)} of {len(ours)} figures carry a doubt, named in the CSV file.")
    return fill(" ".join(said), 120, break_on_hyphens=False)


def beside_published(cells: Sequence[Cell]) -> Iterator[str]:
    """How many of ours lie, with their interval, above or below the published ones of the same counts and lengths."""
    theirs = {(cell.seq_len, cell.heads): cell.overhead_percent for cell in picked(cells, source=THEIRS)}
    counted = []
    for mode, attention in GROUPS:
        group = picked(cells, source=OURS, mode=mode, attention=attention)
        pairs = [(cell, theirs[place]) for cell in group if (place := (cell.seq_len, cell.heads)) in theirs]
        pairs = [(cell, published) for cell, published in pairs if cell.heads > 1]
        above = sum(ends(cell)[0] > published for cell, published in pairs)
        below = sum(ends(cell)[1] < published for cell, published in pairs)
        if pairs:
            counted.append(f"{above} above and {below} below of {len(pairs)} ({attention}, {WORDS[mode]})")
    if counted:
        yield f"Beside the overheads published for a V100, ours lie with their whole interval {', '.join(counted)}."


def table(cells: Sequence[Cell]) -> str:
    """Overheads in Markdown, the published ones last."""
    lines = [
        "| mode | attention | positions | one head, ms | 1 head again | 2 heads | 4 heads | 8 heads |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for mode, attention in (*GROUPS, (None, None)):
        of_kind = picked(cells, mode=mode, attention=attention)
        for length in sorted({cell.seq_len for cell in of_kind}):
            row = picked(of_kind, seq_len=length)
            told = " | ".join("–" if mode is None and cell.heads == 1 else quoted(cell) for cell in row)
            kind = f"{mode} | {attention}" if mode else "*not told* | *V100, published elsewhere, not ours*"
            lines.append(f"| {kind} | {length} | {one_head_ms(row)} | {told} |")
    return "\n".join(lines)


def readme(cells: Sequence[Cell], command: str, width: int) -> str:
    """The page beside the figures."""
    one = cells[0]
    threads = "" if one.threads is None else f", {one.threads} {'thread' if one.threads == 1 else 'threads'}"
    return f"""# What attention heads of the same width cost

One attention block, d_model {width}, with 1, 2, 4 and 8 heads that share that width; each is timed in turn with a
block of one head by `headtune.measure`, and the figures are what it takes beyond the other, with 95 % intervals. The
blocks are the study's own (`blocks.py`): the same four linear maps whatever the heads, around attention that is written
out by matrix products, or `scaled_dot_product_attention` (SDPA). A training step is forward, backward and a step of
AdamW.

    {command}

wrote this page, `heads_cost.csv` and the picture; it runs unchanged on a GPU. Measured on {one.device_name}{threads},
{one.dtype}, batch {one.batch_size}, torch {torch.__version__}.

![overhead over heads](heads_cost.png)

{table(cells)}

The rows of the V100 were published elsewhere, for batch 32 and d_model 512; they are not ours.

## What the figures show

{findings(cells)}
"""
