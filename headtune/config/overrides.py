"""``--set search.trials=4``: keys of a study file, given on the command line."""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headtune.config.document import Document
from headtune.errors import SpecError

_NAME = r'(?:"[^"]+"|[^."=]+)'
_SETTING = re.compile(rf"({_NAME}(?:\.{_NAME})*)=(.*)", re.DOTALL)


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
        place = "--set storage=…" if text.startswith("storage=") else f"--set {text}"  # it may hold a password
        match = _SETTING.fullmatch(text)
        if match is None:
            raise SpecError(f"{place}: is no key=value; write it as in --set search.trials=4")
        try:
            value = Document.parse(f"value: {match[2]}", place).value["value"]
        except SpecError as error:
            raise SpecError(*(problem.replace(f"{place}:1:", f"{place}:") for problem in error.problems)) from None
        return cls(place=place, keys=tuple(name.strip('"') for name in re.findall(_NAME, match[1])), value=value)

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
            if not key.isdecimal() or int(key) >= len(content):
                raise SpecError(f"{self.place}: {where} has {len(content)} items; name one by its number, from 0")
            return content[int(key)]
        if not isinstance(content, dict):
            raise SpecError(f"{self.place}: {where} is no mapping, so it has no key {key}")
        if content.get(key) is None:
            content[key] = {}
        return content[key]


def parse_all(texts: Sequence[str]) -> tuple[list[Override], list[str]]:
    """The overrides in *texts*, and the problems of those that are none."""
    overrides: list[Override] = []
    problems: list[str] = []
    for text in texts:
        try:
            overrides.append(Override.parse(text))
        except SpecError as error:
            problems += error.problems
    return overrides, problems


def overridden(content: Any, overrides: Sequence[Override]) -> tuple[Any, list[str]]:  # noqa: ANN401
    """A copy of *content* with every override in it, and the problems of those that do not fit."""
    content = copy.deepcopy(content)
    problems: list[str] = []
    for override in overrides:
        try:
            override.put(content)
        except SpecError as error:
            problems += error.problems
    return content, problems
