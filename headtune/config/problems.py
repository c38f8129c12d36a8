"""What pydantic found wrong, as sentences for the person: which key, what came, what to write instead."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import get_args

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from headtune.config.section import RULES, Problem, Section
from headtune.config.values import LENGTHS, REFUSED, SHAPES
from headtune.errors import masked

_SENTENCES = {
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of `key: value`",
    "model_type": "must be a mapping of `key: value`",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "invalid_key": "must be text, as every key",
}
_SECRET = ("storage",)


def explain(error: ErrorDetails, root: type[Section]) -> Iterator[Problem]:
    """The problems behind one of pydantic's errors in a file of kind *root*, each with the path of its key."""
    keys = tuple(part for part in error["loc"] if part not in (*SHAPES, LENGTHS, "[key]"))
    if error["type"] == "extra_forbidden" and error["loc"][-1] in SHAPES:
        keys = (*keys, error["loc"][-1])  # a person's own key, called so
    if error["type"] == RULES:
        for below, sentence in error["ctx"]["problems"]:
            place = (*keys, *below)
            yield place, sentence.removeprefix(f"{place[-1]}: " if place else "")
    elif error["type"] == "missing":
        yield keys, f"is missing; write {_meaning(_fields(root, keys[:-1]), keys[-1])}"
    elif error["type"] == "extra_forbidden":
        yield keys, _unknown(str(keys[-1]), list(_fields(root, keys[:-1])))
    else:
        yield keys, _value(error, secret=keys == _SECRET)


def _value(error: ErrorDetails, *, secret: bool) -> str:
    came = error["input"]
    if error["type"] == REFUSED:
        sentence = error["msg"]
    elif error["type"] == "literal_error":
        sentence = f"must be {error['ctx']['expected'].replace(chr(39), '')}"
    else:
        sentence = _SENTENCES.get(error["type"], error["msg"]).format(**error.get("ctx", {}))
    if secret or not sentence.startswith("must"):
        return sentence
    sentence += f" (got {_shown(came)})"
    if error["type"] == "literal_error" and isinstance(came, str):
        near = get_close_matches(came, re.findall("'([^']*)'", error["ctx"]["expected"]), n=1)
        sentence += f"; did you mean {near[0]}?" if near else ""
    if error["type"] == "string_type" and isinstance(came, bool | int | float):
        sentence += "; put it in quotes"
    return sentence


def _shown(value: object) -> str:
    """What came, as people write it in YAML."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    text = masked(repr(value))
    return text if len(text) <= 60 else f"{text[:57]}…"


def _unknown(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    return f"is not a known key; did you mean {near[0]}?" if near else f"is not a known key; known: {', '.join(known)}"


def _meaning(fields: Mapping[str, FieldInfo], key: str | int) -> str:
    field = fields.get(str(key))
    return field.description if field is not None and field.description else "it"


def _fields(root: type[Section], keys: Sequence[str | int]) -> dict[str, FieldInfo]:
    """The fields that a mapping at the path *keys* may have; ``latency_ms@128`` has those of ``latency_ms``."""
    here = [root]
    for key in keys:
        name = str(key).partition("@")[0]
        annotations = [section.model_fields[name] for section in here if name in section.model_fields]
        below = [section for field in annotations for section in _sections(field.annotation)]
        here = below or here
    return {
        name: field
        for section in here
        for name, field in section.model_fields.items()
        if field.validation_alias is None
    }


def _sections(annotation: object) -> Iterator[type[Section]]:
    """The sections in an annotation, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)
