"""Following heads from the projections that make them to the one that reads them.

Backwards by gradients: the outputs of all projections are cut out of the graph, so that the gradient of a head's
queries, keys or values is non-zero just at the features it is made of; that holds through rotations, norms, reshapes
and repetitions. Forwards by labels: the attention's output is replaced by the number of each head, which the output
projection must then read unchanged.

H heads, F features; L all leading dimensions, those of batch and heads.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import headtune.surgery.wiring.reasons as reasons
from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.operations import CONV, SDPA
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.wiring.gradients import Leaves
from headtune.surgery.wiring.sides import Sides, sides_of_product, sides_of_sdpa
from headtune.surgery.wiring.wiring import Features, Wiring

_COARSEST = 0.03
"""What rounding may differ by, of the largest value, in any type: a few units in the last place of bfloat16."""


class Tracer(CallMode):
    """Passes calls on to a recorder, and follows the heads of every attention that it recognises.

    The model is to run without gradients: they are switched on for those functions that the heads flow through, so that
    neither ``torch.no_grad`` nor activation checkpoints in the model stand in the way.

    Args:
        recorder: sees the same calls.
        alive: let projections put out small numbers of both signs, which every activation passes on at some position.
        in_order: refuse heads whose keys or values stand in other orders than those of the first head.
    """

    def __init__(self, recorder: Recorder, *, alive: bool = False, in_order: bool = False) -> None:
        super().__init__()
        self._recorder = recorder
        self._alive = alive
        self._in_order = in_order
        self._leaves = Leaves()
        self._products: dict[int, FunctionCall] = {}
        self._followed: dict[int, Wiring] = {}
        self._columns: dict[int, dict[str, tuple[frozenset[int], ...]]] = {}
        self._reasons: dict[int, str] = {}

    def outcome(self, number: int) -> Wiring | str:
        """The wiring of the recorder's attention call of that number, or why it is unknown, as a sentence."""
        if number in self._reasons:
            return self._reasons[number]
        wiring = self._followed.get(number)
        if wiring is None:
            return reasons.NOT_LAID_OUT
        columns = self._columns.get(number)
        if not columns:
            return reasons.NOT_READ
        heads = range(wiring.num_heads)
        out = tuple({name: found[head] for name, found in columns.items()} for head in heads)
        complete = Wiring(q=wiring.q, k=wiring.k, v=wiring.v, out=out)
        return complete.why_mixed() or complete

    def made(self, number: int) -> Wiring | None:
        """What makes the queries, keys and values of that call, whatever reads its output; None where it is unknown."""
        wiring = self._followed.get(number)
        return None if wiring is None or wiring.why_mixed() else wiring

    def is_whole(self, wiring: Wiring) -> bool:
        """Whether every feature of the projections that make queries, keys and values belongs to a head."""
        made = wiring.of_heads(range(wiring.num_heads))
        return all(len(features) == self._leaves.widths[name] for name, features in made.items())

    def see(self, call: FunctionCall) -> object:
        """Make the call, with gradients where heads flow, and where they change nothing.

        What is made without them could not be written into by heads: DeepSeek puts its keys together in place.
        """
        tensors = list(call.tensors())
        followed = any(not tensor.is_leaf for tensor in tensors)
        harmless = not any(tensor.requires_grad for tensor in tensors)
        with torch.inference_mode(False), torch.set_grad_enabled(followed or harmless):
            return self._see(call)

    def _see(self, call: FunctionCall) -> object:
        result = call.run()
        if isinstance(result, Tensor):
            result = self._projected(call, result)
        number = len(self._recorder.calls)
        self._recorder.see(call.function, call.args, call.kwargs, result)
        if not isinstance(result, Tensor):
            return result
        if len(self._recorder.calls) > number:
            labels = self._follow(call, number)
            if labels is not None:
                self._recorder.replace(result, labels)
                return labels
        elif call.product() is not None and (scores := self._recorder.scores_in(result)) is not None:
            self._products.setdefault(scores.number, call)
        return result

    def _projected(self, call: FunctionCall, result: Tensor) -> Tensor:
        """What stands for the result from here on: cut out of the graph if it is a projection."""
        projection = self._recorder.projection(call.function, call.args, call.kwargs)
        if projection is None or not result.is_floating_point():
            return result
        source, name = projection
        number = self._recorder.call_read_in(source)
        if number in self._followed:
            self._read(number, source, name)
            # It read labels: what comes later shall see values, none of them degenerate.
            result = torch.randn_like(result)
        if self._alive:
            result = _alive(result)
        return self._leaves.cut(name, result, -result.dim() + _batch_dims(call, result))

    def _follow(self, call: FunctionCall, number: int) -> Tensor | None:
        """Follow an attention's heads back, and give back their numbers in the shape of its output."""
        sides = sides_of_sdpa(call) if call.function is SDPA else self._sides_of_product(call)
        if sides is None:
            return None
        if sides.values.is_meta or _constant(sides.values):
            self._reasons[number] = reasons.ON_META if sides.values.is_meta else reasons.BLIND
            return None
        heads, head_dim = self._recorder.calls[number].num_heads, self._recorder.calls[number].head_dim
        found = self._stride(sides.q, heads)
        if isinstance(found, str):
            self._reasons[number] = found
            return None
        stride, q = found
        labels_L = torch.arange(len(sides.q), device=sides.q.device) // stride % heads
        labels = sides.spread(labels_L)
        k = tuple(self._leaves.features(sides.k[head * stride]) for head in range(heads))
        v = tuple(self._leaves.features(sides.v[labels == head]) for head in range(heads))
        self._followed[number] = Wiring(q=q, k=k, v=v, out=())
        for words, side, size in (("keys", k, head_dim), ("values", v, sides.values.shape[-1])):
            if (name := _wider(side, size)) is not None:
                self._reasons[number] = reasons.mixed(words, name)
        if self._in_order and number not in self._reasons:
            keys = (lambda mask_D, head: sides.key_part(mask_D)[head * stride], k, head_dim)
            values = (lambda mask_D, head: sides.value_part(mask_D)[labels == head], v, sides.values.shape[-1])
            for words, (part, side, size) in (("keys", keys), ("values", values)):
                if not self._ordered_alike(part, side, torch.arange(size, device=labels.device)):
                    self._reasons[number] = reasons.out_of_order(words)
        return labels

    def _ordered_alike(
        self, part: Callable[[Tensor, int], Tensor], side: Sequence[Features], numbers_D: Tensor
    ) -> bool:
        """Whether every head has its features in the same order, by those whose number has a bit set, for each bit."""
        for bit in range((len(numbers_D) - 1).bit_length()):
            mask_D = numbers_D.bitwise_right_shift(bit).bitwise_and(1)
            orders = {_places(self._leaves.features(part(mask_D, head)), side[head]) for head in range(len(side))}
            if len(orders) > 1:
                return False
        return True

    def _sides_of_product(self, call: FunctionCall) -> Sides | None:
        factors = call.product()
        for weights in (factors.left, factors.right) if factors else ():
            scores = self._recorder.scores_in(weights)
            if scores is not None and scores.number in self._products:
                return sides_of_product(self._products.pop(scores.number), call, weights)
        return None

    def _stride(self, q: Tensor, heads: int) -> tuple[int, tuple[Features, ...]] | str:
        """How many of L lie between one head and the next, and what each head's queries are made of; or why none do.

        1 where the heads come last, as in ``(B, H)``; B in ``(H, B)``.
        """
        first = self._leaves.features(q[0])
        if not first:
            return reasons.no_projection("queries")
        copies, rest = divmod(len(q), heads)
        for stride in () if rest else (number for number in range(1, copies + 1) if copies % number == 0):
            found = [first]
            for head in range(1, heads):
                features = self._leaves.features(q[head * stride])
                if not features or features in found:
                    break
                found.append(features)
            period = stride * heads
            if len(found) == heads and (period == len(q) or self._leaves.features(q[period]) == first):
                return stride, tuple(found)
        return reasons.mixed("queries", next(iter(first)))

    def _read(self, number: int, source: Tensor, name: str) -> None:
        """Take note of which features of a projection read which head."""
        labels_F = source.detach().reshape(-1, source.shape[-1])
        heads = range(self._followed[number].num_heads)
        columns = tuple(frozenset((labels_F[0] == head).nonzero().flatten().tolist()) for head in heads)
        same = bool((labels_F == labels_F[:1]).all())
        if same and all(columns) and sum(map(len, columns)) == labels_F.shape[1]:
            self._columns.setdefault(number, {})[name] = columns
        else:
            self._reasons[number] = reasons.changed_before(name)


def _places(some: Features, every: Features) -> tuple[tuple[int, ...], ...]:
    """Where some features of a head stand among all that it has of each projection."""
    return tuple(
        tuple(place for place, index in enumerate(sorted(indices)) if index in some.get(name, frozenset()))
        for name, indices in sorted(every.items())
    )


def _alive(result: Tensor) -> Tensor:
    """Small random numbers in its place, whose signs take turns along every dimension."""
    places = sum(
        torch.arange(size, device=result.device).reshape(-1, *[1] * (result.dim() - dim - 1))
        for dim, size in enumerate(result.shape)
    )
    return (torch.rand_like(result) * 0.08 + 0.01) * (1 - 2 * (places % 2))


def _batch_dims(call: FunctionCall, result: Tensor) -> int:
    """How many dimensions of a projection's result stand before its features."""
    if call.function not in CONV:
        return result.dim() - 1
    weight = next(tensor for tensor in reversed(list(call.tensors())) if tensor.dim() > 2)
    return result.dim() - weight.dim() + 1


def _wider(side: Sequence[Features], size: int) -> str | None:
    """The weight of which several heads share more features than one head has: they are mixed, not grouped."""
    shared = (features for features in side if side.count(features) > 1)
    return next((name for features in shared for name, indices in features.items() if len(indices) > size), None)


def _constant(values: Tensor) -> bool:
    """Whether the values are the same at every key, but for rounding."""
    gap = (values - values[..., :1, :]).detach().abs().max()
    rounding = min(100 * torch.finfo(values.dtype).eps, _COARSEST)
    return bool(gap <= rounding * values.detach().abs().max())
