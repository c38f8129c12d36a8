"""``--set search.trials=4``: keys of a study file, given on the command line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headtune.config.document import Document
from headtune.errors import SpecError

_NAME = r'(?:"[^"]+"|[^."=]+)'
_SETTING = re.compile(rf"({_NAME}(?:\.{_NAME})*)=(.*)", re.DOTALL)
_KEY = "value"
_WITHIN = re.compile(rf"(?s)^.*?:\d+: (?:{_KEY}(?:\.|: ))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One key and its new value.

    Attributes:
        place: how messages name it: ``--set search.trials=4``.
        keys: the path of the key; a list's item by its number.
        value: the new value.
    """

    place: str
    keys: tuple[str, ...]
    value: Any

    @classmethod
    def parse(cls, text: str) -> "Override":
        """The override in *text*; the value is YAML, a name that holds dots stands in quotes.

        Raises:
            SpecError: it is no ``key=value``, or the value is not YAML.
        """
        name, _, written = text.partition("=")
        place = f"--set {name}=…" if "://" in written or "storage" in name else f"--set {text}"  # it may be secret
        match = _SETTING.fullmatch(text)
        if match is None:
            raise SpecError(f"{place}: is no key=value; write it as in --set search.trials=4")
        return cls(place=place, keys=_names(match[1]), value=_value(match[2], place))

    def covers(self, keys: Sequence[str | int]) -> bool:
        """Whether what is at the path *keys* came from this override."""
        path = tuple(map(str, keys))
        return path[: len(self.keys)] == self.keys or (bool(path) and self.keys[: len(path)] == path)

    def put(self, content: Any) -> None:  # noqa: ANN401
        """Set the key in *content*, with the mappings above it where they are missing.

        Raises:
            SpecError: something above the key is no mapping, or a list without that item.
        """
        for depth, key in enumerate(self.keys[:-1], start=1):
            content = self._child(content, key, self.keys[: depth - 1])
        self._child(content, self.keys[-1], self.keys[:-1])
        content[int(self.keys[-1]) if isinstance(content, list) else self.keys[-1]] = self.value

    def _child(self, content: Any, key: str, above: tuple[str, ...]) -> Any:  # noqa: ANN401
        where = ".".join(above) or "the file"
        if isinstance(content, list):
            if key not in map(str, range(len(content))):
                count = f"{len(content)} item" + ("" if len(content) == 1 else "s")
                raise SpecError(f"{self.place}: {where} has {count}; name one by its number, from 0")
            return content[int(key)]
        if not isinstance(content, dict):
            raise SpecError(f"{self.place}: {where} is no mapping, so it has no key {key}")
        if content.get(key) is None:
            content[key] = {}
        return content[key]


def parse_all(texts: Sequence[str]) -> tuple[list[Override], list[str]]:
    """The overrides in *texts*, and the problems of those that are none, or that a later one would undo."""
    overrides: list[Override] = []
    problems: list[str] = []
    for text in texts:
        try:
            found = Override.parse(text)
        except SpecError as error:
            problems += error.problems
            continue
        problems += [
            f"{found.place}: would undo {other.place}; keep one"
            for other in overrides
            if other.keys[: len(found.keys)] == found.keys
        ]
        overrides.append(found)
    return overrides, problems


def overridden(content: Any, overrides: Sequence[Override]) -> tuple[Any, list[str]]:  # noqa: ANN401
    """A copy of *content* with every override in it, and the problems of those that do not fit."""
    content = _copy(content)
    problems: list[str] = []
    for override in overrides:
        try:
            override.put(content)
        except SpecError as error:
            problems += error.problems
    return content, problems


def _names(path: str) -> tuple[str, ...]:
    return tuple(name.strip('"') for name in re.findall(_NAME, path))


def _value(written: str, place: str) -> Any:  # noqa: ANN401
    """What YAML makes of *written*, if it is one value and nothing else.

    Raises:
        SpecError: it is not.
    """
    text = f"{_KEY}: {written}"
    try:
        document = Document.parse(text, place)
    except SpecError as error:
        raise SpecError(*(f"{place}: {_WITHIN.sub('', problem)}" for problem in error.problems)) from None
    if text[document.end((_KEY,)) :].strip():
        raise SpecError(f"{place}: holds more than one value; put the value in quotes, and give each key its own --set")
    return document.value[_KEY]


def _copy(content: Any) -> Any:  # noqa: ANN401
    """A deep copy that shares nothing, so that what an alias repeats can be set in one place alone."""
    if isinstance(content, dict):
        return {key: _copy(value) for key, value in content.items()}
    return [_copy(value) for value in content] if isinstance(content, list) else content
