"""YAML nodes, looked at before they become values: what no study can hold is refused while it is still small."""

import math
import re

import yaml

_MOST_VALUES = 50_000
_MOST_LEVELS = 50
_MOST_SHOWN = 8
_TAG = "tag:yaml.org,2002:"
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def survey(root: yaml.Node) -> list[str]:
    """What is wrong below *root*, each problem with its line and key.

    Anchors that hold themselves, keys that are given twice or are no text, numbers that are not finite, characters that
    no file name can hold, and what is too deep or, its aliases written out, too large.
    """
    found = _Survey()
    found.extent(root, (), ())
    return found.problems


class _Survey:
    """Looks at every node once, however often aliases repeat it, and at how much and how deep all of it would be."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._extents: dict[yaml.Node, tuple[int, int]] = {}

    def extent(self, node: yaml.Node, keys: tuple[str, ...], above: tuple[yaml.Node, ...]) -> tuple[int, int]:
        """How many values *node* has when its aliases are written out, and how many levels."""
        if node in above:
            self._tell(node, keys, "the anchor refers to itself; write the value out")
            return 1, 1
        if node not in self._extents:
            self._extents[node] = self._bounded(node, keys, self._children(node, keys, above))
        return self._extents[node]

    def _children(self, node: yaml.Node, keys: tuple[str, ...], above: tuple[yaml.Node, ...]) -> list[tuple[int, int]]:
        above = (*above, node)
        if isinstance(node, yaml.SequenceNode):
            return [self.extent(child, (*keys, str(index)), above) for index, child in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            self._check_scalar(node, keys)
            return []
        first: dict[str, int] = {}
        extents = []
        for key, child in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            self._check_key(key, (*keys, name), first)
            extents.append(self.extent(child, (*keys, name), above))
        return extents

    def _bounded(self, node: yaml.Node, keys: tuple[str, ...], children: list[tuple[int, int]]) -> tuple[int, int]:
        values = 1 + sum(values for values, _ in children)
        levels = 1 + max((levels for _, levels in children), default=0)
        if values > _MOST_VALUES >= max((values for values, _ in children), default=0):
            self._tell(node, keys, f"the aliases expand too far, to more than {_MOST_VALUES:,} values; use fewer")
        if levels == _MOST_LEVELS + 1:
            self._tell(node, keys, f"is nested more than {_MOST_LEVELS} levels deep; write it flatter")
        return values, levels

    def _check_key(self, key: yaml.Node, keys: tuple[str, ...], first: dict[str, int]) -> None:
        if key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
            self._tell(key, keys, "must be text, as every key; put it in quotes")
        elif keys[-1] in first:
            self._tell(key, keys, f"is given twice, first on line {first[keys[-1]]}; keep one")
        else:
            self._check_scalar(key, keys)
        first.setdefault(keys[-1], key.start_mark.line + 1)

    def _check_scalar(self, node: yaml.Node, keys: tuple[str, ...]) -> None:
        strange = _UNWRITABLE.search(node.value)
        if strange is not None:
            self._tell(node, keys, f"holds the character U+{ord(strange[0]):04X}; remove it")
        if node.tag == f"{_TAG}float" and not _is_finite(node.value):
            self._tell(node, keys, f"must be a finite number (got {node.value}); put it in quotes if it is a text")

    def _tell(self, node: yaml.Node, keys: tuple[str, ...], problem: str) -> None:
        place = ".".join(keys if len(keys) <= _MOST_SHOWN else (*keys[:_MOST_SHOWN], "…"))
        self.problems.append(": ".join(filter(None, (str(node.start_mark.line + 1), place, problem))))


def _is_finite(number: str) -> bool:
    return "n" not in number.lower() and math.isfinite(float(number.replace("_", "")))
