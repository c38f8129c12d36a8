"""What a window and checkpointing would change, in plain words."""

from collections.abc import Iterator, Mapping

from headtune.timing import Comparison, LongVariant


def long_findings(long: Mapping[str, tuple[LongVariant, ...]]) -> Iterator[str]:
    """A sentence for each plan and variant that was measured: what it does to time and to memory."""
    for name, variants in long.items():
        for one in variants:
            if one.ratio is None or one.ratio_interval is None:
                continue
            low, high = one.ratio_interval
            beside = Comparison(ratio=one.ratio, interval=one.ratio_interval)
            if not beside.significant:
                time = f"takes as long within the noise ([{low:.2f}, {high:.2f}] ×)"
            else:
                time = f"takes {one.ratio:.2f} × the time [{low:.2f}, {high:.2f}]"
            yield f"{_called(one)}, {name}: {time}{_memory(one)}"


def _called(one: LongVariant) -> str:
    if one.name == "window":
        return f"attention within a window of {one.window} positions, which computes something else"
    return "checkpointing, which computes activations again"


def _memory(one: LongVariant) -> str:
    if one.memory_mb is None or not one.memory_without_mb:
        return ""
    return f" and {one.memory_mb / one.memory_without_mb:.2f} × the memory"
