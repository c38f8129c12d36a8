"""Which combinations may be begun: uniform plans first, then any that was never tried."""

from collections.abc import Collection, Sequence
from random import Random

from headtune.heads import HeadPlan
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate.outlook import Outlook

UNIFORM = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How far up the scale of every site the first plans lie: what heads are worth is learnt before where they are."""

LISTED = 2000
"""A space with no more combinations is thought about as a whole."""

_NEAR = 1000


def untried(outlook: Outlook, barred: Collection[HeadPlan], rng: Random) -> list[Encoded]:
    """Combinations that were never tried.

    While uniform plans are among them that are more likely allowed than not, these alone.

    Args:
        outlook: what is known.
        barred: plans that are not to be begun.
        rng: draws combinations where there are too many to list.
    """
    return _uniform(outlook, barred, rng) or _others(outlook, barred, rng)


def _uniform(outlook: Outlook, barred: Collection[HeadPlan], rng: Random) -> list[Encoded]:
    tried = {one.record.plan for one in outlook.seen} | set(barred)
    every = [outlook.codec.uniform(share, rng) for share in UNIFORM]
    new = [code for code in every if outlook.codec.decode(code)[0] not in tried]
    return [code for code, chance in zip(new, outlook.allowed(new), strict=True) if chance > 0.5] if new else []


def _others(outlook: Outlook, barred: Collection[HeadPlan], rng: Random) -> list[Encoded]:
    tried = {tuple(one.encoded.items()) for one in outlook.seen}
    every = candidates(outlook.codec, [one.encoded for one in outlook.finished], rng)
    new = [code for code in every if tuple(code.items()) not in tried]
    return [code for code in new if outlook.codec.decode(code)[0] not in barred] if barred else new


def candidates(codec: Codec, best: Sequence[Encoded], rng: Random) -> list[Encoded]:
    """Every combination where they are few; else as many drawn at random, and neighbours of the *best*."""
    if codec.size is not None and codec.size <= LISTED:
        return list(codec.walk())
    drawn = [codec.sample(rng) for _ in range(LISTED)]
    names = list(codec.distributions)
    for step in range(_NEAR if best else 0):
        changed = rng.sample(names, min(len(names), 1 + step % 3))
        drawn.append(rng.choice(best) | {name: codec.sample_one(name, rng) for name in changed})
    return drawn
