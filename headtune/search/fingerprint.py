"""What of a study may not change between two starts."""

import json
from collections.abc import Mapping
from typing import Any

from headtune.errors import StudyChangedError

_REMEDY = "more trials or other resources are fine; for anything else change it back, or choose another name or output"


def check_unchanged(study: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Make sure that a study still means what its storage holds.

    Raises:
        StudyChangedError: lists every key that changed, with its old and its new value.
    """
    problems = [
        f"{key}: was {old} when study {study!r} began, is now {new}" for key, (old, new) in changes(before, now).items()
    ]
    if problems:
        problems[-1] += f"; {_REMEDY}"
        raise StudyChangedError(*problems)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Field → old and new value in JSON, for each that changed; a field of a mapping is ``mapping.field``."""
    old, new = _fields(before), _fields(now)
    pairs = {field: (old.get(field, _MISSING), new.get(field, _MISSING)) for field in {**old, **new}}
    return {
        field: (_json(was), _json(is_now))
        for field, (was, is_now) in pairs.items()
        if _json(was, sort=True) != _json(is_now, sort=True)
    }


_MISSING = object()


def _fields(values: Mapping[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= {f"{key}.{name}": item for name, item in value.items()} if isinstance(value, Mapping) else {key: value}
    return found


def _json(value: object, *, sort: bool = False) -> str:
    """The value in JSON, where lists and tuples are one; sorted to compare, since the order of keys means nothing."""
    return "not there" if value is _MISSING else json.dumps(value, ensure_ascii=False, sort_keys=sort)
