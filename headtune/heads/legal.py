"""Which head counts a site can have under a hold."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isqrt

from headtune.heads.choice import HeadChoice
from headtune.heads.site import AttentionSite, Hold


def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a positive *number*, ascending."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return tuple(sorted({*small, *(number // divisor for divisor in small)}))


def head_counts(site: AttentionSite, hold: Hold, *, maximum: int | None = None) -> tuple[int, ...]:
    """Query-head counts that the hold allows, ascending, whatever the key/value heads are.

    Under ``hold: width`` the divisors of the width; under ``hold: head_dim`` 1 to the present count, or to *maximum*
    where that is larger.
    """
    if hold == "width":
        return divisors(site.width)
    return tuple(range(1, max(site.num_heads, maximum or 0) + 1))


def legal_heads(site: AttentionSite, hold: Hold, *, maximum: int | None = None) -> tuple[int, ...]:
    """Query-head counts that the hold allows while the present group size stays, ascending; never empty."""
    return tuple(heads for heads in head_counts(site, hold, maximum=maximum) if heads % site.group_size == 0)


def nearest(counts: Iterable[int], target: float) -> int:
    """The count nearest to *target*; of two equally near ones the smaller."""
    return min(counts, key=lambda count: (abs(count - target), count))


def problems(choice: HeadChoice, site: AttentionSite, hold: Hold, *, maximum: int | None = None) -> tuple[str, ...]:
    """What keeps *choice* from being legal at *site*, each as a sentence with both numbers; empty when it is legal."""
    heads, kv_heads, head_dim = choice
    found = []
    if heads not in head_counts(site, hold, maximum=maximum):
        found.append(_heads_problem(choice, site, hold, maximum))
    elif kv_heads is None and heads % site.group_size:
        legal = listing(legal_heads(site, hold, maximum=maximum))
        found.append(
            f"{heads} heads cannot form groups of {site.group_size} as at present; legal: {legal}, "
            f"or name the key/value heads, as in {heads}/1"
        )
    elif hold == "width" and head_dim is not None and heads * head_dim != site.width:
        found.append(
            f"{heads} heads of {head_dim} features make a width of {heads * head_dim}, but hold: width keeps "
            f"{site.width}; write {heads} or {heads}x{site.width // heads}"
        )
    if kv_heads is not None and heads % kv_heads:
        found.append(f"{kv_heads} key/value heads do not divide {heads} heads; legal: {listing(divisors(heads))}")
    return tuple(f"{site.path}: {problem}" for problem in found)


def listing(numbers: Sequence[int]) -> str:
    """Numbers for a message: all of them, or the ends of a long run with equal steps."""
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 6 and len(steps) == 1:
        return f"{numbers[0]}, {numbers[1]}, …, {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _heads_problem(choice: HeadChoice, site: AttentionSite, hold: Hold, maximum: int | None) -> str:
    heads = choice.num_heads
    if choice.num_kv_heads is None:
        legal = legal_heads(site, hold, maximum=maximum)
    else:
        legal = head_counts(site, hold, maximum=maximum)
    if hold == "width":
        return f"{heads} heads do not divide the width {site.width}; legal: {listing(legal)}"
    extended = maximum is not None and maximum > site.num_heads
    bound = f"the maximum of {maximum}" if extended else f"the present {site.num_heads}"
    return f"{heads} heads are more than {bound}; legal: {listing(legal)}"
