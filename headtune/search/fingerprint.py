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
    """Dotted key → old and new value in JSON, for each that changed."""
    old, new = _flat(json.loads(json.dumps(before))), _flat(json.loads(json.dumps(now)))
    pairs = {key: (old.get(key, _MISSING), new.get(key, _MISSING)) for key in {**old, **new}}
    return {key: (was, is_now) for key, (was, is_now) in pairs.items() if was != is_now}


_MISSING = "not there"


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings as one, with dotted keys and values in JSON."""
    found: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict) and item:
            found |= _flat(item, f"{prefix}{key}.")
        else:
            found[prefix + key] = json.dumps(item, ensure_ascii=False)
    return found
