"""A YAML text as plain values, with the line of every key."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from headtune.config.nodes import survey
from headtune.errors import SpecError

Key = str | int


class _Loader(yaml.SafeLoader):
    """The safe loader with YAML 1.2's plain scalars: ``1e-4`` is a number; ``yes``, ``1:30`` and dates are text."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9_]{0,17})", "-+0123456789"),
    ("float", r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first))

_REMEDIES = {
    "'\\t'": "indent with spaces, not tabs",
    "mapping values are not allowed": "check the indentation, or quote a text that holds ': '",
    "expected <block end>": "check the indentation of this line",
    "could not find expected ':'": "write `key: value`",
    "expected ',' or ']'": "close the list with ]",
    "expected ',' or '}'": "close the mapping with }",
    "end of stream": "close the quote",
    "cannot start any token": "quote the text that begins with this character",
    "single document": "keep one document: remove the line `---`",
    "undefined alias": "define the anchor first, or quote the text that begins with *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed YAML file.

    Attributes:
        name: what the person calls the file; every message begins with it.
        value: the content as plain values.
        root: the same as YAML nodes, which know their lines.
    """

    name: str
    value: Any
    root: yaml.Node

    @classmethod
    def parse(cls, text: str, name: str) -> "Document":
        """The document in *text*.

        Raises:
            SpecError: it is empty, not YAML, uses tags, refers to itself, gives a key twice, has keys that are no text
                or values that are no finite numbers, or is too deep or, its aliases written out, too large; each with
                its line.
        """
        try:
            root = yaml.compose(text, Loader=_Loader)
            tagged = [token.start_mark for token in yaml.scan(text, Loader=_Loader) if isinstance(token, yaml.TagToken)]
            problems = [f"{mark.line + 1}: a tag such as !!str; write the plain value" for mark in tagged]
            problems += [] if root is None else survey(root)
            if problems:
                raise SpecError(*(f"{name}:{problem}" for problem in problems))
            value = None if root is None else _Loader("").construct_document(root)
        except yaml.YAMLError as error:
            raise SpecError(f"{name}:{_syntax(error, text)}") from None
        except RecursionError:
            raise SpecError(f"{name}: is nested too deeply to be a study") from None
        if root is None or value is None:
            raise SpecError(f"{name}: is empty; `headtune init` writes a study to start from")
        return cls(name=name, value=value, root=root)

    def line(self, keys: Sequence[Key]) -> int:
        """The line of the last of *keys* that is in the file, from 1."""
        node, line = self.root, self.root.start_mark.line
        for key in keys:
            found = _child(node, key)
            if found is None:
                break
            line, node = found
        return line + 1

    def end(self, keys: Sequence[Key]) -> int:
        """Where the value at the path *keys*, which is there, ends in the text."""
        node = self.root
        for key in keys:
            found = _child(node, key)
            assert found is not None
            _, node = found
        return int(node.end_mark.index)


def _child(node: yaml.Node, key: Key) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == str(key):
                return name.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key].start_mark.line, node.value[key]
    return None


def _syntax(error: yaml.YAMLError, text: str) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return f"{line}: holds the character U+{ord(text[error.position]):04X}, which YAML does not allow; remove it"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return f" not valid YAML: {error}"
    mark = error.problem_mark or error.context_mark
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in str(error)), "")
    problem = error.problem.removeprefix("but ") + (f"; {remedy}" if remedy else "")
    return f"{mark.line + 1 if mark else 1}: not valid YAML: {problem}"
