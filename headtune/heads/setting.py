"""The settings of a space: which counts are wanted, and which sites share one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import headtune.rules as rules
from headtune.errors import SpaceError


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRange:
    """Head counts from *min* to *max* that *divisible_by* divides; without *max*, up to what a site has at present.

    Raises:
        SpaceError: a number is below 1, or no count is left.
    """

    min: int = 1
    max: int | None = None
    divisible_by: int = 1

    def __post_init__(self) -> None:
        given = {"min": self.min, "max": self.max, "divisible_by": self.divisible_by}
        problems = [
            f"heads: {name} is {number!r}; it {rules.count(number)}"
            for name, number in given.items()
            if number is not None and rules.count(number)
        ]
        if not problems and self.max is not None and self.max // self.divisible_by * self.divisible_by < self.min:
            problems.append(f"heads: no count from {self.min} to {self.max} is divisible by {self.divisible_by}")
        if problems:
            raise SpaceError(*problems)

    def __contains__(self, heads: int) -> bool:
        return self.min <= heads and (self.max is None or heads <= self.max) and heads % self.divisible_by == 0

    def __str__(self) -> str:
        top = "" if self.max is None else f", max: {self.max}"
        step = "" if self.divisible_by == 1 else f", divisible_by: {self.divisible_by}"
        return f"{{min: {self.min}{top}{step}}}"


@dataclass(frozen=True, slots=True)
class Stages:
    """Each stack of layers is cut into *count* contiguous groups by depth, whose sites share one count.

    Raises:
        SpaceError: *count* is below 1.
    """

    count: int

    def __post_init__(self) -> None:
        if rules.count(self.count):
            raise SpaceError(f"tie: stages is {self.count!r}; it {rules.count(self.count)}")

    def __str__(self) -> str:
        return f"{{stages: {self.count}}}"


Heads = Literal["auto"] | Sequence[int] | HeadRange
KvHeads = Literal["same", "auto"] | Sequence[int]
HeadDims = Literal["same"] | Sequence[int]
Tie = Literal["none", "uniform", "ramp"] | Stages


class Settings(NamedTuple):
    """What holds at one site."""

    heads: Heads
    kv_heads: KvHeads
    head_dims: HeadDims

    @property
    def maximum(self) -> int | None:
        """The largest head count that is named; ``None`` where none is."""
        if isinstance(self.heads, HeadRange):
            return self.heads.max
        return None if self.heads == "auto" else max(map(int, self.heads))

    def wants_heads(self, heads: int) -> bool:
        """Whether the setting ``heads`` names this count."""
        return self.heads == "auto" or heads in self.heads

    def wants_kv_heads(self, kv_heads: int) -> bool:
        """Whether the setting ``kv_heads`` names this count."""
        return isinstance(self.kv_heads, str) or kv_heads in self.kv_heads


def words(setting: Heads | KvHeads | HeadDims) -> str:
    """A setting as a study file has it."""
    return str(setting) if isinstance(setting, str | HeadRange) else f"[{', '.join(map(str, setting))}]"


def setting_problems(name: str, setting: object, known: Sequence[str]) -> list[str]:
    """What is wrong with the value of a setting, given the words it may be."""
    if setting in known:
        return []
    if isinstance(setting, str) or not isinstance(setting, Sequence):
        return [f"{name}: '{setting}' is not known; write {' or '.join(known)}, or a list of whole numbers"]
    if not setting:
        return [f"{name}: the list is empty; name at least one number, or write {known[0]}"]
    wrong = [number for number in setting if type(number) is not int or number < 1]
    return [f"{name}: {number!r} is not a whole number of at least 1" for number in wrong]
