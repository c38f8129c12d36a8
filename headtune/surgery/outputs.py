"""What a model puts out, and whether two models put out the same."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headtune.surgery.inputs import Inputs
from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import observe

_ROUNDING = {torch.float64: 1e-11, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""What sums in another order may differ by, of the largest value, after the layers of a deep model."""

_LEAST = 1e-3
"""A tensor whose values are all smaller is compared as if this were its largest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What one forward pass put out.

    Attributes:
        returned: the floating-point tensors that the model returned, however nested, in order; None for attention
            weights, which rightly change with the heads that there are.
        projected: name of a weight → what it projected in each call, for those that read an attention's output. A wrong
            head shows there before the layers above dilute it.
        dtype: the coarsest floating-point type that was computed with.
    """

    returned: tuple[Tensor | None, ...]
    projected: Mapping[str, tuple[Tensor, ...]]
    dtype: torch.dtype


def outputs(model: nn.Module, inputs: Inputs) -> Outputs:
    """What *model* puts out in eval mode, without gradients, on PyTorch's ordinary paths; the model is left as it was.

    Raises:
        ForwardFailed: the forward pass raised.
    """
    recorder = Recorder(model)
    listener = _Listener(recorder)
    with torch.no_grad():
        returned = observe(model, inputs, recorder, listener)
    return Outputs(
        returned=tuple(None if recorder.holds_weights(tensor) else tensor for tensor in _tensors(returned)),
        projected={name: tuple(tensors) for name, tensors in listener.projected.items()},
        dtype=_coarsest(listener.dtypes),
    )


def difference(made: Outputs, expected: Outputs) -> str | None:
    """Where two models' outputs differ by more than rounding, in words; ``None`` where they do not.

    A returned tensor whose shape depends on the heads, such as a cache of keys, is not compared.
    """
    rounding = _ROUNDING[_coarsest([made.dtype, expected.dtype])]
    for name, tensors in expected.projected.items():
        for one, other in _pairs(made.projected.get(name, ()), tensors):
            if (gap := _gap(one, other, rounding)) is not None:
                return f"what {name} puts out is off by {gap:.3g} from what it should be"
    if len(made.returned) != len(expected.returned):
        return f"it returns {len(made.returned)} tensors where it should return {len(expected.returned)}"
    pairs = list(_pairs(made.returned, expected.returned))
    if not pairs and not made.projected.keys() & expected.projected.keys():
        return "it returns no tensors that can be compared with what they should be"
    gaps = [gap for one, other in pairs if (gap := _gap(one, other, rounding)) is not None]
    return f"what it returns is off by {max(gaps):.3g} from what it should be" if gaps else None


def returned_difference(made: object, expected: object) -> str | None:
    """Where the floating-point tensors that two forward passes returned differ by more than rounding, in words.

    They are compared in their order, however nested; ``None`` where all agree.
    """
    ours, theirs = list(_tensors(made)), list(_tensors(expected))
    if [one.shape for one in ours] != [one.shape for one in theirs]:
        shapes = [", ".join(str(tuple(one.shape)) for one in some) or "nothing" for some in (ours, theirs)]
        return f"what it returns is {shapes[0]} where it should be {shapes[1]}"
    rounding = _ROUNDING[_coarsest([_precision(one) for one in (*ours, *theirs)])] if ours else 0.0
    gaps = [gap for one, other in zip(ours, theirs, strict=True) if (gap := _gap(one, other, rounding)) is not None]
    return f"what it returns is off by {max(gaps):.3g} from what it should be" if gaps else None


class _Listener(CallMode):
    """Passes calls on to a recorder, and keeps what attention's output projections put out."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.projected: dict[str, list[Tensor]] = {}
        self.dtypes: set[torch.dtype] = {torch.float64}
        self._recorder = recorder

    def see(self, call: FunctionCall) -> object:
        """Make the call, and pass it on."""
        result = call.run()
        self._recorder.see(call.function, call.args, call.kwargs, result)
        projection = self._recorder.projection(call.function, call.args, call.kwargs)
        if projection is not None and isinstance(result, Tensor) and result.is_floating_point():
            source, name = projection
            self.dtypes.add(_precision(result))
            if self._recorder.call_read_in(source) is not None:
                self.projected.setdefault(name, []).append(result.clone())
        return result


def _precision(tensor: Tensor) -> torch.dtype:
    """The type that rounds as the tensor's own arithmetic does: TF32 has the mantissa of float16."""
    if tensor.dtype not in _ROUNDING:
        return torch.bfloat16
    reduced = tensor.is_cuda and tensor.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return torch.float16 if reduced else tensor.dtype


def _coarsest(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)


def _pairs(left: Sequence[Tensor | None], right: Sequence[Tensor | None]) -> Iterator[tuple[Tensor, Tensor]]:
    for one, other in zip(left, right, strict=False):
        if one is not None and other is not None and one.shape == other.shape and one.numel():
            yield one, other


def _gap(one: Tensor, other: Tensor, rounding: float) -> float | None:
    """The largest difference where it is more than rounding, or where one has a NaN or an infinity of its own."""
    left, right = one.detach().double(), other.detach().double()
    finite = left.isfinite() & right.isfinite()
    if not torch.allclose(left[~finite], right[~finite], rtol=0, atol=0, equal_nan=True):
        return float("inf")
    if not bool(finite.any()):
        return None
    gap = float((left[finite] - right[finite]).abs().max())
    return gap if gap > rounding * max(float(right[finite].abs().max()), _LEAST) else None


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name))
