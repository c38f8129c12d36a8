"""Marks on tensors, and how they pass from an operation's inputs to its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn import Parameter
from torch.utils.weak import WeakTensorKeyDictionary

from headtune.surgery.probe.flow import Flow, merged
from headtune.surgery.probe.operations import EXPAND, PLUS, TIMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Query-key products on their way to a softmax.

    Attributes:
        number: counts the products of one forward pass; -1 inside a fused function.
    """

    q: Flow
    k: Flow
    num_heads: int
    num_kv_heads: int
    head_dim: int
    two_inputs: bool
    scale: float
    number: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Attention weights on their way to the values."""

    scores: Scores
    causal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is known of one tensor.

    Attributes:
        flow: which projection made its features.
        scores: it holds query-key products.
        weights: it holds a softmax of such products.
        loose: it holds a softmax of anything else, or a mixture of several heads' weights.
        mixture: it holds fewer maps than there are heads: their mean, or some of them.
        call: number of the attention call whose weighted values it holds.
    """

    flow: Flow | None = None
    scores: Scores | None = None
    weights: Weights | None = None
    loose: bool = False
    mixture: bool = False
    call: int | None = None

    @property
    def softmax(self) -> bool:
        """Whether it holds a softmax of anything."""
        return self.loose or self.weights is not None


_NONE = Mark()


class Trail:
    """All marks of one forward pass. Tensors may die; their marks go with them."""

    def __init__(self) -> None:
        self._marks = WeakTensorKeyDictionary()

    def on(self, tensor: Tensor) -> Mark:
        """The mark of *tensor*; one that says nothing where it has none."""
        mark: Mark = self._marks.get(tensor, _NONE)
        return mark

    def put(self, tensor: Tensor, mark: Mark) -> None:
        """Mark *tensor*, instead of what was known of it."""
        self._marks[tensor] = mark

    def carry(self, function: object, inputs: Sequence[Tensor], outputs: Sequence[Tensor], factor: float) -> None:
        """Pass the marks of an operation's *inputs* on to its *outputs*.

        Args:
            function: what was called.
            inputs: its tensor arguments.
            outputs: its tensor results.
            factor: the number that it multiplied with, 1 otherwise.
        """
        marked = [(tensor, mark) for tensor in inputs if (mark := self.on(tensor)) is not _NONE]
        table = _table(function, [tensor for tensor in inputs if self.on(tensor) is _NONE]) if marked else 0
        for output in outputs if marked else ():
            mark = _carried(function, marked, output, factor, table)
            if mark != _NONE:
                self.put(output, mark)


def _carried(
    function: object, marked: Sequence[tuple[Tensor, Mark]], output: Tensor, factor: float, table: int
) -> Mark:
    flows = [(tensor, mark.flow) for tensor, mark in marked if mark.flow is not None]
    flow = merged([flow for _, flow in flows]) if flows else None
    if flow is not None:
        flow = replace(
            flow,
            scale=flow.scale * factor,
            positions=flow.positions * _copies(function, flows[0][0], output),
            rotated=max(flow.rotated, table),
        )
    maps = [mark for tensor, mark in marked if _same_map(tensor, output)]
    # Where the maps of several heads became fewer ones, these are no longer softmaxes of scores.
    mixed = [mark for tensor, mark in marked if _fewer_maps(tensor, output)]
    turned = [mark for tensor, mark in marked if _turned(tensor, output)]
    scores = next((mark.scores for mark in maps if mark.scores is not None), None)
    # A sum is where the residual stream takes the output over: what comes later is no output projection.
    made = [mark.call for tensor, mark in marked if tensor.numel() == output.numel() and mark.call is not None]
    return Mark(
        flow=flow,
        scores=None if scores is None else replace(scores, scale=scores.scale * factor),
        weights=next((mark.weights for mark in maps if mark.weights is not None), None),
        loose=any(mark.loose for mark in maps) or any(mark.softmax for mark in (*mixed, *turned)),
        mixture=any(mark.mixture for mark in maps) or any(mark.mixture or mark.weights is not None for mark in mixed),
        call=made[0] if made and function not in PLUS else None,
    )


def _table(function: object, others: Sequence[Tensor]) -> int:
    """Features of a table that this call multiplies with: of what came from no projection, and is no parameter."""
    if function not in TIMES:
        return 0
    tables = [one for one in others if one.dim() > 0 and one.shape[-1] > 1 and not isinstance(one, Parameter)]
    return max((one.shape[-1] * (2 if one.is_complex() else 1) for one in tables), default=0)


def _fewer_maps(before: Tensor, after: Tensor) -> bool:
    """Whether ``(…, T, S)`` maps came out as fewer maps."""
    return after.dim() >= 2 and after.shape[-2:] == before.shape[-2:] and after.numel() < before.numel()


def _turned(before: Tensor, after: Tensor) -> bool:
    """Whether maps came out with their dimensions in another order."""
    return before.dim() > 2 and after.numel() == before.numel() and after.shape[-2:] != before.shape[-2:]


def _copies(function: object, source: Tensor, output: Tensor) -> int:
    """How many times an expanding function repeated its input."""
    return output.numel() // source.numel() if function in EXPAND and source.numel() else 1


def _same_map(before: Tensor, after: Tensor) -> bool:
    """Whether a ``(…, T, S)`` map came out as a map: masked, scaled, cast, or with its heads merged into the batch."""
    return after.dim() >= 2 and after.shape[-2:] == before.shape[-2:] and after.numel() >= before.numel()
