"""What the modules of a model hold, place by place, and edits of it that cost next to nothing to make and to undo."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import nn

from headtune.surgery.sharing.share import Share

Place: TypeAlias = tuple[nn.Module, str, object]
"""A module, the name of its dictionary of parameters, buffers, modules or hooks, and a key; without a name, an
attribute."""

_NOTHING = object()
_PLAIN = (bool, int, float, str)
_MODE = "training"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edit:
    """Another value for a place; nothing to hold there, or a share, which is taken anew each time."""

    place: Place
    value: object

    def agrees(self, other: "Edit") -> bool:
        """Whether both leave the same in their place."""
        return _same(self.value, other.value)


def held(model: nn.Module) -> dict[Place, object]:
    """What every place holds now, but for training modes."""
    found: dict[Place, object] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, dict) and name.startswith("_"):
                found |= {(module, name, key): item for key, item in value.items()}
            elif name != _MODE:
                found[module, "", name] = value
    return found


def difference(before: Mapping[Place, object], after: Mapping[Place, object]) -> Iterator[Edit]:
    """The edits that lead from one state of a model to another, at modules that it had before."""
    known = {module for module, _, _ in before}
    for place in dict.fromkeys((*before, *after)):
        value = after.get(place, _NOTHING)
        if place[0] in known and not _same(before.get(place, _NOTHING), value):
            yield Edit(place=place, value=value)


@contextmanager
def made(edits: Iterable[Edit]) -> Iterator[None]:
    """Make the edits, as long as the block runs."""
    before: list[tuple[Place, object]] = []
    try:
        for edit in edits:
            value = edit.value.taken() if isinstance(edit.value, Share) else edit.value
            before.append((edit.place, _put(edit.place, value)))
        yield
    finally:
        for place, value in reversed(before):
            _put(place, value)


def _put(place: Place, value: object) -> object:
    """Let the place hold *value*; returns what it held."""
    module, name, key = place
    holder: dict[Any, object] = vars(module)[name] if name else vars(module)
    before = holder.get(key, _NOTHING)
    if value is _NOTHING:
        holder.pop(key, None)
    else:
        holder[key] = value
    return before


def _same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, _PLAIN) and one == other)
