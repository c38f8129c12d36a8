"""Following heads from the projections that make them to the one that reads them.

Backwards by gradients: the outputs of all projections are cut out of the graph, so that the gradient of a head's
queries, keys or values is non-zero just at the features it is made of; that holds through rotations, norms, reshapes
and repetitions. Forwards by labels: the attention's output is replaced by the number of each head, which the output
projection must then read unchanged.

B batch, H heads, T queries, S keys, D features per head; L all leading dimensions, those of batch and heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headtune.surgery.probe.fused import given_to_sdpa
from headtune.surgery.probe.operations import SDPA, product
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.wiring.wiring import Features, Wiring

Function = Callable[..., object]


class Tracer(TorchFunctionMode):
    """Passes calls on to a recorder, and follows the heads of every attention that it recognises.

    Attributes:
        wirings: number of the recorder's attention call → its wiring; without those that could not be followed.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.wirings: dict[int, Wiring] = {}
        self._recorder = recorder
        self._leaves: list[tuple[str, Tensor]] = []
        self._products: dict[int, _Call] = {}
        self._open: dict[int, Wiring] = {}

    def __torch_function__(
        self,
        func: Function,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        call = _Call(func, args, dict(kwargs or {}))
        result = call.run()
        projection = self._recorder.projection(func, args, call.kwargs)
        if projection is not None and isinstance(result, Tensor):
            source, name = projection
            number = self._recorder.call_read_in(source)
            if number in self._open:
                self._close(number, source, name)
                result = torch.zeros_like(result)
            result = self._cut(name, result)
        seen = len(self._recorder.calls)
        self._recorder.see(func, args, call.kwargs, result)
        if len(self._recorder.calls) > seen and isinstance(result, Tensor):
            labels = self._follow(call, seen)
            if labels is not None:
                self._recorder.replace(result, labels)
                return labels
        elif isinstance(result, Tensor) and product(func, args, call.kwargs) is not None:
            scores = self._recorder.scores_in(result)
            if scores is not None:
                self._products.setdefault(scores.number, call)
        return result

    def _cut(self, name: str, result: Tensor) -> Tensor:
        """A tensor like *result* whose graph begins here; a copy, so that it may be written into."""
        leaf = result.detach().requires_grad_()
        self._leaves.append((name, leaf))
        return leaf.clone()

    def _follow(self, call: "_Call", number: int) -> Tensor | None:
        """Follow an attention's heads back, and give back their numbers in the shape of its output."""
        sides = _sides_of_sdpa(call) if call.function is SDPA else self._sides_of_product(call)
        if sides is None:
            return None
        leading = list(combinations(*map(range, sides.q.shape[:-2])))
        made_of = [self._features(sides.q[index]) for index in leading]
        heads = list(dict.fromkeys(map(_hashed, made_of)))
        numbers = torch.tensor([heads.index(_hashed(one)) for one in made_of], device=sides.q.device)
        labels_L = numbers.reshape(sides.q.shape[:-2])
        first = [leading[int((numbers == head).nonzero()[0])] for head in range(len(heads))]
        labels = sides.spread(labels_L)
        self._open[number] = Wiring(
            q=tuple(map(dict, heads)),
            k=tuple(self._features(sides.k[index]) for index in first),
            v=tuple(self._features(sides.v[labels == head]) for head in range(len(heads))),
            out=(),
        )
        return labels

    def _sides_of_product(self, call: "_Call") -> "_Sides | None":
        factors = product(call.function, call.args, call.kwargs)
        assert factors is not None
        weights, values = factors.left, factors.right
        scores = self._recorder.scores_in(weights)
        if scores is None:
            weights, values = values, weights
            scores = self._recorder.scores_in(weights)
        made = self._products.get(scores.number) if scores is not None else None
        multiplied = made and product(made.function, made.args, made.kwargs)
        if not made or not multiplied:
            return None
        left, right = multiplied.left, multiplied.right
        q, k = made.again({right: right.detach()}), made.again({left: left.detach()})
        if q.shape != weights.shape:
            return None

        def spread(labels_L: Tensor) -> Tensor:
            marked = torch.zeros_like(weights)
            marked[..., 0] = labels_L[..., None].to(weights.dtype)
            return call.again({weights: marked, values: torch.ones_like(values)}).detach()

        return _Sides(q=q, k=k, v=call.again({weights: weights.detach()}), spread=spread)

    def _features(self, tensor: Tensor) -> dict[str, frozenset[int]]:
        """Which outputs of which projections *tensor* depends on."""
        if not tensor.requires_grad:
            return {}
        total = (tensor * torch.randn_like(tensor)).sum()
        leaves = [leaf for _, leaf in self._leaves]
        gradients = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
        found: dict[str, frozenset[int]] = {}
        for (name, _), gradient in zip(self._leaves, gradients, strict=True):
            if gradient is not None:
                touched = gradient.reshape(-1, gradient.shape[-1]).ne(0).any(0).nonzero().flatten().tolist()
                if touched:
                    found[name] = found.get(name, frozenset()) | frozenset(touched)
        return found

    def _close(self, number: int, source: Tensor, name: str) -> None:
        """Read which of its inputs an output projection takes from which head."""
        wiring = self._open.pop(number)
        labels_F = source.detach().reshape(-1, source.shape[-1])
        if bool((labels_F != labels_F[:1]).any()):
            return
        columns = [frozenset((labels_F[0] == head).nonzero().flatten().tolist()) for head in range(wiring.num_heads)]
        if all(columns) and sum(map(len, columns)) == labels_F.shape[1]:
            out = tuple({name: found} for found in columns)
            self.wirings[number] = Wiring(q=wiring.q, k=wiring.k, v=wiring.v, out=out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """One attention, taken apart so that each side can be followed alone.

    Attributes:
        q: ``(L, …)``, depends on the queries only.
        k: ``(L, …)``, depends on the keys only.
        v: the output's shape, depends on the values only.
        spread: from a number for each of ``(L)`` to the output's shape.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    spread: Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class _Call:
    function: Function
    args: tuple[object, ...]
    kwargs: dict[str, object]

    def run(self) -> object:
        return self.function(*self.args, **self.kwargs)

    def again(self, swaps: Mapping[Tensor, Tensor]) -> Tensor:
        """The result with other tensors in place of some."""

        def swapped(value: object) -> object:
            if isinstance(value, list | tuple):
                return [swapped(item) for item in value]
            return next((new for old, new in swaps.items() if old is value), value)

        result = self.function(*map(swapped, self.args), **{name: swapped(value) for name, value in self.kwargs.items()})
        assert isinstance(result, Tensor)
        return result


def _sides_of_sdpa(call: _Call) -> _Sides | None:
    operands = given_to_sdpa(call.args, call.kwargs)
    if operands is None:
        return None
    query, key, value = operands
    leading = query.shape[:-2]
    if key.dim() > 2 and len(leading) > 0 and key.shape[-3] not in (1, leading[-1]):
        group = leading[-1] // key.shape[-3]
        key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
    key, value = (one.expand(*leading, *one.shape[-2:]) for one in (key, value))
    shape = (*leading, query.shape[-2], value.shape[-1])
    # The output has one row for each query; values have one for each key.
    v = value.sum(-2, keepdim=True).expand(shape)
    return _Sides(
        q=query, k=key, v=v, spread=lambda labels_L: labels_L[..., None, None].expand(shape).to(query.dtype).clone()
    )


def _hashed(features: Features) -> frozenset[tuple[str, frozenset[int]]]:
    return frozenset(features.items())
