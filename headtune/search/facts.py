"""What a study knows beside its trials: JSON values by name, however large, in any Optuna storage."""

import json
from typing import Any

from optuna.storages import BaseStorage

_PREFIX = "headtune:"
_PART = 16_000


class Facts:
    """JSON values by name, kept with one study.

    A value that is longer than what every database keeps in one field (64 kB in MySQL) is cut into parts. The new parts
    are written beside the old ones and the name is pointed at them last, so that a kill in mid-write leaves the old.
    """

    def __init__(self, storage: BaseStorage, study_id: int) -> None:
        self._storage = storage
        self._study_id = study_id

    def recall(self, name: str) -> Any:  # noqa: ANN401
        """The value under *name*; ``None`` where nothing was remembered."""
        kept = self._kept()
        head = kept.get(_PREFIX + name)
        if head is None:
            return None
        return json.loads(head["text"] if "text" in head else "".join(kept[part] for part in head["parts"]))

    def remember(self, name: str, value: object) -> None:
        """Keep *value* under *name*, in place of what was there."""
        text = json.dumps(value)
        if len(text) <= _PART:
            self._write(_PREFIX + name, {"text": text})
            return
        before = self._kept().get(_PREFIX + name, {})
        slot = "b" if f"{_PREFIX}{name}.a.0" in before.get("parts", ()) else "a"
        pieces = [text[start : start + _PART] for start in range(0, len(text), _PART)]
        parts = [f"{_PREFIX}{name}.{slot}.{number}" for number in range(len(pieces))]
        for part, piece in zip(parts, pieces, strict=True):
            self._write(part, piece)
        self._write(_PREFIX + name, {"parts": parts})

    def _kept(self) -> dict[str, Any]:
        return self._storage.get_study_system_attrs(self._study_id)

    def _write(self, key: str, value: str | dict[str, Any]) -> None:
        self._storage.set_study_system_attr(self._study_id, key, value)
