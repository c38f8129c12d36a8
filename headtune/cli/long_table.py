"""What would spare long sequences, for a terminal."""

from rich.console import RenderableType

from headtune.cli.terminal import table
from headtune.cli.wording import interval, value
from headtune.study import ProfileDetails
from headtune.timing import LongVariant


def long_table(details: ProfileDetails) -> list[RenderableType]:
    """One row a plan and variant: time and memory with it and without it; then why some cannot be had."""
    if not details.long:
        return []
    columns = ("time, × without", "95 % interval", "ms", "without", "peak MB", "without")
    rows = table("long sequences", "with", *columns, numbers=len(columns))
    refused: dict[str, list[str]] = {}
    for name, variants in details.long.items():
        for one in variants:
            if one.refused is not None or one.ratio is None or one.ratio_interval is None:
                refused.setdefault(f"no {_called(one)}: {one.refused}", []).append(name)
                continue
            times = (one.median_ms, one.median_without_ms, one.memory_mb, one.memory_without_mb)
            cells = ("–" if number is None else value(number) for number in times)
            rows.add_row(name, _called(one), value(one.ratio), interval(one.ratio_interval), *cells)
    told = [f"{', '.join(names)}: {why}" for why, names in refused.items()]
    return [*([rows] if rows.row_count else []), *told, ""]


def _called(one: LongVariant) -> str:
    return f"window of {one.window}" if one.name == "window" else "checkpointing (train_step)"
