"""Marks on tensors, and how they pass from an operation's inputs to its outputs."""

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from headtune.surgery.probe.flow import Flow, merged
from headtune.surgery.probe.operations import EXPAND, PLUS

MarkT = TypeVar("MarkT")


class Marks(Generic[MarkT]):
    """A mapping from tensors, by identity, that lets them die."""

    def __init__(self) -> None:
        self._marks = WeakTensorKeyDictionary()

    def put(self, tensor: Tensor, mark: MarkT) -> None:
        """Mark *tensor*, instead of what it bore."""
        self._marks[tensor] = mark

    def on(self, tensor: Tensor) -> MarkT | None:
        """The mark that *tensor* bears."""
        mark: MarkT | None = self._marks.get(tensor)
        return mark

    def first(self, tensors: list[Tensor]) -> tuple[Tensor, MarkT] | None:
        """The first of *tensors* that bears a mark, with it."""
        return next(((tensor, mark) for tensor in tensors if (mark := self.on(tensor)) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Query-key products on their way to a softmax."""

    q: Flow
    k: Flow
    num_heads: int
    num_kv_heads: int
    head_dim: int
    two_inputs: bool
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Attention weights on their way to the values."""

    scores: Scores
    causal: bool


@dataclass(slots=True, kw_only=True)
class Trail:
    """All marks of one forward pass.

    Attributes:
        flows: which projection made a tensor.
        scores: query-key products.
        weights: softmaxes of such products.
        loose: softmaxes of anything else.
        outputs: weighted values, with the number of the attention call that made them.
    """

    flows: Marks[Flow] = field(default_factory=lambda: Marks[Flow]())
    scores: Marks[Scores] = field(default_factory=lambda: Marks[Scores]())
    weights: Marks[Weights] = field(default_factory=lambda: Marks[Weights]())
    loose: Marks[bool] = field(default_factory=lambda: Marks[bool]())
    outputs: Marks[int] = field(default_factory=lambda: Marks[int]())

    def carry(self, function: object, inputs: list[Tensor], outputs: list[Tensor], factor: float) -> None:
        """Pass the marks of an operation's *inputs* on to its *outputs*.

        Args:
            function: what was called.
            inputs: its tensor arguments.
            outputs: its tensor results.
            factor: the number that it multiplied with, 1 otherwise.
        """
        flows = [flow for tensor in inputs if (flow := self.flows.on(tensor)) is not None]
        flow = replace(whole, scale=whole.scale * factor) if flows and (whole := merged(flows)) else None
        scores, weights = self.scores.first(inputs), self.weights.first(inputs)
        loose, made = self.loose.first(inputs), self.outputs.first(inputs)
        for output in outputs:
            if flow is not None:
                self.flows.put(output, _grown(flow, function, inputs[0], output))
            if scores and _same_map(scores[0], output):
                self.scores.put(output, replace(scores[1], scale=scores[1].scale * factor))
            if weights and _same_map(weights[0], output):
                self.weights.put(output, weights[1])
            if loose and _same_map(loose[0], output):
                self.loose.put(output, True)
            # A sum is where the residual stream takes the output over: what comes later is no output projection.
            if made and made[0].numel() == output.numel() and function not in PLUS:
                self.outputs.put(output, made[1])


def _grown(flow: Flow, function: object, source: Tensor, output: Tensor) -> Flow:
    if function not in EXPAND or source.numel() == 0:
        return flow
    return replace(flow, positions=flow.positions * (output.numel() // source.numel()))


def _same_map(before: Tensor, after: Tensor) -> bool:
    """Whether a ``(…, T, S)`` map came out as a map: masked, scaled, cast, or with its heads merged into the batch."""
    return after.dim() >= 2 and after.shape[-2:] == before.shape[-2:] and after.numel() >= before.numel()
