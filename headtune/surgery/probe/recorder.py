"""Recognises attention in the stream of PyTorch functions that a forward pass calls.

B batch, H heads, T queries, S keys, D features per head.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from headtune.surgery.probe.call import AttentionCall, Frame, Projections
from headtune.surgery.probe.causal import hides_the_future
from headtune.surgery.probe.flow import Flow, entered_apart
from headtune.surgery.probe.fused import read_multi_head, read_sdpa
from headtune.surgery.probe.heads import count_distinct, count_einsum_heads, count_heads, splits_evenly
from headtune.surgery.probe.marks import Mark, Scores, Trail, Weights
from headtune.surgery.probe.operations import (
    ADDMM,
    BADDBMM,
    CONV,
    EINSUM,
    LINEAR,
    MATMUL,
    MULTI_HEAD,
    RMATMUL,
    SDPA,
    SOFTMAX,
    Product,
    factor,
    product,
)

Handler = Callable[[object, Sequence[object], Mapping[str, object], Tensor], bool]


class Recorder:
    """Sees every function call of one forward pass, and keeps the attention among them.

    Attributes:
        frames: the modules running now, outermost first; whoever runs the model keeps them up to date.
        calls: the attention computations so far.
        unplaced: paths of modules that weight values by a softmax that is not one of query-key scores.
    """

    def __init__(self, model: nn.Module) -> None:
        self.frames: list[Frame] = []
        self.calls: list[AttentionCall] = []
        self.unplaced: list[str] = []
        self._parameters = {id(parameter): name for name, parameter in model.named_parameters()}
        self._trail = Trail()
        self._products = 0
        self._handlers: dict[object, Handler] = {
            SDPA: self._see_sdpa,
            MULTI_HEAD: self._see_multi_head,
            **dict.fromkeys(SOFTMAX, self._see_softmax),
            **dict.fromkeys(MATMUL | RMATMUL | BADDBMM | EINSUM, self._see_product),
            **dict.fromkeys(LINEAR | ADDMM | CONV, self._see_projection),
        }

    def see(self, function: object, args: Sequence[object], kwargs: Mapping[str, object], result: object) -> None:
        """Take note of a function call that has returned."""
        outputs = _tensors(result)
        if not outputs:
            return
        handler = self._handlers.get(function)
        if handler is None or not handler(function, args, kwargs, outputs[0]):
            self._trail.carry(function, _tensors([*args, *kwargs.values()]), outputs, factor(function, args))

    def projection(
        self, function: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Tensor, str] | None:
        """What this call projects, and the name of the weight that it projects with; None for other calls.

        The name is ``""`` for a weight of a linear map or a convolution that is no parameter of the model.
        """
        if function in LINEAR | ADDMM | CONV:
            pair = _projected(function, args, kwargs)
            return None if pair is None else (pair[0], self._name(pair[1]) or "")
        factors = product(function, args, kwargs) if function in MATMUL | RMATMUL | BADDBMM | EINSUM else None
        if factors is None:
            return None
        pairs = ((factors.left, factors.right), (factors.right, factors.left))
        named = ((source, name) for source, weight in pairs if (name := self._name(weight)) is not None)
        return next(named, None)

    def call_read_in(self, source: Tensor) -> int | None:
        """The number of the attention call whose weighted values *source* holds."""
        return self._trail.on(source).call

    def scores_in(self, tensor: Tensor) -> Scores | None:
        """The query-key products that *tensor* holds, before the softmax or after it."""
        mark = self._trail.on(tensor)
        return mark.scores if mark.weights is None else mark.weights.scores

    def holds_weights(self, tensor: Tensor) -> bool:
        """Whether *tensor* holds attention weights: of every head, of some, or their mean over heads."""
        mark = self._trail.on(tensor)
        return mark.weights is not None or mark.mixture

    def replace(self, old: Tensor, new: Tensor) -> None:
        """Take *new* for *old* from now on."""
        self._trail.put(new, self._trail.on(old))

    def _see_projection(
        self, function: object, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor
    ) -> bool:
        pair = _projected(function, args, kwargs)
        if pair is None:
            return False
        features = result.shape[1 if function in CONV else -1]
        self._project(*pair, result, result.numel() // max(features, 1))
        return True

    def _project(self, source: Tensor, weight: Tensor, result: Tensor, positions: int) -> None:
        name = self._name(weight) or ""
        made = self._trail.on(source).call
        if made is not None:
            known = self.calls[made].projections
            self.calls[made] = replace(self.calls[made], projections=replace(known, out=known.out | {name}))
        flow = Flow(weights=frozenset({name}), positions=positions, entered=source)
        # A map from heads to heads (talking heads) leaves weights that are no softmax of one head's scores.
        mixed = self._trail.on(source).softmax and result.numel() == source.numel() and source.dim() > 2
        self._trail.put(result, Mark(flow=flow, loose=mixed))

    def _name(self, tensor: Tensor) -> str | None:
        """The parameter that this tensor is, or is a view of."""
        name = self._parameters.get(id(tensor))
        return name if name is not None or tensor._base is None else self._parameters.get(id(tensor._base))

    def _see_product(
        self, function: object, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor
    ) -> bool:
        factors = product(function, args, kwargs)
        if factors is None:
            return False
        left, right = factors.left, factors.right
        for source, weight in ((left, right), (right, left)):
            if self._name(weight) is not None:
                by_vector = weight is right and factors.equation is None and result.dim() > 0
                self._project(source, weight, result, result.numel() // result.shape[-1] if by_vector else 0)
                return True
        for weights, values in ((left, right), (right, left)):
            mark = self._trail.on(weights)
            if mark.weights is not None:
                self._add(mark.weights.scores, mark.weights.causal, self._flow(values), result)
                return True
            if mark.loose and min(weights.dim(), values.dim()) > 2:
                self.unplaced.append(self._path)
                return False
        return self._mark_scores(factors, result)

    def _mark_scores(self, factors: Product, result: Tensor) -> bool:
        left, right = factors.left, factors.right
        if min(left.dim(), right.dim(), result.dim()) < 2:
            return False
        q, k = self._flow(left), self._flow(right)
        if factors.equation is None:
            head_dim = left.shape[-1]
            if not (splits_evenly(left, head_dim, q.positions) or splits_evenly(right, head_dim, k.positions)):
                return False
            heads = count_heads(left, head_dim, q.positions)
            kv_heads = count_distinct(right, heads)
        else:
            counted = count_einsum_heads(factors, factors.equation, q.positions)
            if counted is None:
                return False
            heads, head_dim = counted
            kv_heads = heads
        apart = entered_apart(q, k)
        scores = Scores(
            q=q,
            k=k,
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            two_inputs=result.shape[-2] != result.shape[-1] if apart is None else apart,
            scale=q.scale * k.scale * factors.alpha,
            number=self._products,
        )
        self._products += 1
        self._trail.put(result, Mark(scores=scores))
        return True

    def _see_softmax(
        self, function: object, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor
    ) -> bool:
        given = [*args, *(kwargs[name] for name in ("input", "dim") if name in kwargs)]
        match given:
            case [Tensor() as source, *rest]:
                scores = self._trail.on(source).scores
                if scores is None:
                    self._trail.put(result, Mark(loose=True))
                    return True
                last = bool(rest) and rest[0] in (-1, source.dim() - 1)
                causal = last and hides_the_future(None if result.is_meta else result == 0)
                self._trail.put(result, Mark(weights=Weights(scores=scores, causal=causal)))
                return True
        return False

    def _see_sdpa(self, function: object, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor) -> bool:
        fused = read_sdpa(args, kwargs, self._flow)
        if fused is not None:
            self._add(fused.scores, fused.causal, fused.v, result)
        return fused is not None

    def _see_multi_head(
        self, function: object, args: Sequence[object], kwargs: Mapping[str, object], result: Tensor
    ) -> bool:
        fused = read_multi_head(args, kwargs)
        if fused is not None:
            self._add(fused.scores, fused.causal, fused.v, None)
        return fused is not None

    def _add(self, scores: Scores, causal: bool, v: Flow, result: Tensor | None) -> None:
        """Keep a call; *result* is what its output projection will read, None where that has been applied."""
        if result is not None:
            self._trail.put(result, Mark(call=len(self.calls)))
        self.calls.append(
            AttentionCall(
                frames=tuple(self.frames),
                num_heads=scores.num_heads,
                num_kv_heads=scores.num_kv_heads,
                head_dim=scores.head_dim,
                scale=scores.scale,
                rotated=scores.q.rotated,
                two_inputs=scores.two_inputs,
                causal=causal,
                projections=Projections(q=scores.q.weights, k=scores.k.weights, v=v.weights),
            )
        )

    def _flow(self, tensor: Tensor) -> Flow:
        return self._trail.on(tensor).flow or Flow()

    @property
    def _path(self) -> str:
        return self.frames[-1].path if self.frames else ""


def _projected(function: object, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Tensor, Tensor] | None:
    """What a linear map or a convolution reads, and its weight."""
    given = [*args, *(kwargs[name] for name in ("input", "mat1", "mat2", "weight") if name in kwargs)]
    start = 1 if function in ADDMM else 0
    match given[start : start + 2]:
        case [Tensor() as source, Tensor() as weight]:
            return source, weight
    return None


def _tensors(value: object) -> list[Tensor]:
    """The tensors in a function's result or arguments, one list deep."""
    if isinstance(value, Tensor):
        return [value]
    if not isinstance(value, list | tuple):
        return []
    found: list[Tensor] = []
    for item in value:
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, list | tuple):
            found.extend(inner for inner in item if isinstance(inner, Tensor))
    return found
