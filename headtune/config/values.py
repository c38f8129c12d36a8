"""The kinds of plain values that a study file holds."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PlainValidator
from pydantic_core import PydanticCustomError

import headtune.rules as rules

T = TypeVar("T")

REFUSED = "refused"
"""The type of an error whose message is the whole sentence for the person."""

SHAPES = WORD, LIST, MAPPING, CHOICES = "(word)", "(list)", "(mapping)", "(choices)"
"""The shapes that a key may have; pydantic puts them into an error's path, where messages leave them out."""

LENGTHS = "(lengths)"
"""Stands likewise above keys that name a sequence length."""

_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile("".join(rf"(?:([0-9]{{1,9}}(?:\.[0-9]+)?){unit})?" for unit in _SECONDS))


def refuse(sentence: str) -> PydanticCustomError:
    """The error that tells the person *sentence*."""
    return PydanticCustomError(REFUSED, "{sentence}", {"sentence": sentence})


def kept(rule: rules.Rule) -> Callable[[T], T]:
    """Refuses what breaks the rule."""

    def check(value: T) -> T:
        sentence = rule(value)
        if sentence:
            raise refuse(sentence)
        return value

    return check


def kind(expected: str, shape: Callable[[object], str | None]) -> Discriminator:
    """Tells the shapes of a union apart; ``must be <expected>`` where *shape* knows none."""
    return Discriminator(shape, custom_error_type=REFUSED, custom_error_message=f"must be {expected}")


def either(expected: str, *words: str) -> Discriminator:
    """Tells one of *words*, a list and a mapping apart."""

    def shape(value: object) -> str | None:
        if isinstance(value, dict):
            return MAPPING
        if isinstance(value, list):
            return LIST
        return WORD if isinstance(value, str) and value in words else None

    return kind(expected, shape)


EMPTY = BeforeValidator(lambda value: {} if value is None else value)
"""Takes a key with nothing after it as an empty mapping."""


def _seconds(value: object) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    parts = match.groups(default="0") if match else ()
    seconds = sum(float(part) * unit for part, unit in zip(parts, _SECONDS.values(), strict=False))
    if seconds == 0:
        raise refuse("must be a time with its unit, such as 2h, 90m, 30s or 1h30m")
    return seconds


def _auto_or_count(value: object) -> Literal["auto"] | int:
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refuse("must be auto or a whole number of at least 1")
    return value


def _version(value: object) -> Literal[1]:
    if type(value) is int and value == 1:
        return 1
    raise refuse("must be 1")


def at_home(path: str) -> str:
    """The path with a leading ``~`` or ``~name`` written out, as shells do."""
    if not path.startswith("~"):
        return path
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        raise refuse(
            f"there is no home folder for {path.split('/')[0]}; write the path out, or begin it with ./"
        ) from None


Version = Annotated[Literal[1], PlainValidator(_version)]
Number = Annotated[int | float, PlainValidator(kept(rules.number))]
"""A finite number as it is written: 1 stays whole; 1.0 and 1e-4 are real."""

Scalar = Annotated[str | bool | int | float, PlainValidator(kept(rules.scalar))]
Count = Annotated[int, AfterValidator(kept(rules.count))]
AutoCount = Annotated[Literal["auto"] | int, PlainValidator(_auto_or_count)]
Seconds = Annotated[float, PlainValidator(_seconds)]
FolderName = Annotated[str, AfterValidator(kept(rules.folder_name))]
Identifier = Annotated[str, AfterValidator(kept(rules.identifier))]
Text = Annotated[str, Field(min_length=1)]
Location = Annotated[Text, AfterValidator(at_home)]
"""A path, where it starts from the home folder written out."""
