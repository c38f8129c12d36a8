"""The kinds of plain values that a study file holds."""

import keyword
import math
import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PlainValidator
from pydantic_core import PydanticCustomError

REFUSED = "refused"
"""The type of an error whose message is the whole sentence for the person."""

SHAPES = WORD, LIST, MAPPING, CHOICES = "(word)", "(list)", "(mapping)", "(choices)"
"""The shapes that a key may have; pydantic puts them into an error's path, where messages leave them out."""

_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile("".join(rf"(?:([0-9]{{1,9}}(?:\.[0-9]+)?){unit})?" for unit in _SECONDS))


def refuse(sentence: str) -> PydanticCustomError:
    """The error that tells the person *sentence*."""
    return PydanticCustomError(REFUSED, "{sentence}", {"sentence": sentence})


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


def later(reasons: dict[str, str]) -> BeforeValidator:
    """Refuses values that have a meaning but are not there yet, each with what to do instead."""

    def check(value: object) -> object:
        if isinstance(value, str) and value in reasons:
            raise refuse(f"{value} is not available yet: {reasons[value]}")
        return value

    return BeforeValidator(check)


EMPTY = BeforeValidator(lambda value: {} if value is None else value)
"""Takes a key with nothing after it as an empty mapping."""


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise refuse("must be a number")
    return value


def _scalar(value: object) -> str | bool | int | float:
    if isinstance(value, str | bool):
        return value
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise refuse("must be text, a number, true or false")
    return value


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


def _folder_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", value):
        raise refuse("must be letters, digits, '.', '_' and '-', at most 100: it names a folder")
    return value


def _identifier(value: str) -> str:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise refuse("must be a name as in Python code: letters, digits and '_'")
    return value


Number = Annotated[int | float, PlainValidator(_number)]
"""A finite number as it is written: 1 stays whole; 1.0 and 1e-4 are real."""

Scalar = Annotated[str | bool | int | float, PlainValidator(_scalar)]
Count = Annotated[int, Field(ge=1)]
AutoCount = Annotated[Literal["auto"] | int, PlainValidator(_auto_or_count)]
Seconds = Annotated[float, PlainValidator(_seconds)]
FolderName = Annotated[str, AfterValidator(_folder_name)]
Identifier = Annotated[str, AfterValidator(_identifier)]
Text = Annotated[str, Field(min_length=1)]
