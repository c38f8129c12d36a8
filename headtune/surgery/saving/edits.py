"""The mark that surgery leaves on a module: what it changed there, by name."""

from dataclasses import dataclass

from torch import nn

from headtune.heads.count import HeadCount

_NAME = "_headtune_edits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Names of what surgery changed in one module; the values are read off the module when it is saved.

    Attributes:
        attributes: plain attributes that were set.
        fields: attribute that holds a configuration, and the field that was set in a copy of it.
        tensors: parameters and buffers that got another shape, and buffers outside ``state_dict`` with other values.
        count: what the module computes, if it is an attention block.
    """

    attributes: frozenset[str] = frozenset()
    fields: frozenset[tuple[str, str]] = frozenset()
    tensors: frozenset[str] = frozenset()
    count: HeadCount | None = None

    def followed_by(self, later: "Edits") -> "Edits":
        """Both, one after the other."""
        return Edits(
            attributes=self.attributes | later.attributes,
            fields=self.fields | later.fields,
            tensors=self.tensors | later.tensors,
            count=later.count or self.count,
        )


NONE = Edits()


def edits_of(module: nn.Module) -> Edits:
    """What the module's mark says."""
    mark = vars(module).get(_NAME)
    return mark if isinstance(mark, Edits) else NONE


def mark(module: nn.Module, edits: Edits) -> None:
    """Leave a mark, which copies and moves with the module and is no part of its ``state_dict``."""
    if edits != NONE:
        setattr(module, _NAME, edits)


def is_mark(name: str) -> bool:
    """Whether an attribute of that name is the mark."""
    return name == _NAME
