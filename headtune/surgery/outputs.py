"""What a model puts out, and whether two models put out the same."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType

import torch
from torch import Tensor, nn

from headtune.surgery.inputs import Inputs
from headtune.surgery.probe.call_mode import CallMode
from headtune.surgery.probe.function_call import FunctionCall
from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import observe

_ROUNDING = {torch.float64: 1e-11, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""What sums in another order may differ by, of the values around, after the layers of a deep model."""

_LEAST = 1e-3
"""Smaller values are compared as if they were this large."""


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

    A returned tensor whose shape depends on the heads, such as a cache of keys, is not compared. Weights without a name
    are computed ones, such as those of gates, which only one of the models may have.
    """
    rounding = _ROUNDING[_coarsest([made.dtype, expected.dtype])]
    for name, tensors in expected.projected.items():
        found = made.projected.get(name, ())
        if name and [one.shape for one in found] != [one.shape for one in tensors]:
            return f"{name} reads the heads {_times(found)} where it should do so {_times(tensors)}, or otherwise"
        if not _show_something(tensors):
            return f"what {name} puts out is nowhere finite, so that nothing can be compared: mend its weights first"
        for one, other in _pairs(found, tensors):
            if (gap := _gap(one, other, rounding)) is not None:
                return f"what {name} puts out is off by {gap:.3g} from what it should be"
    if len(made.returned) != len(expected.returned):
        return f"it returns {len(made.returned)} tensors where it should return {len(expected.returned)}"
    pairs = list(_pairs(made.returned, expected.returned))
    if not pairs and not made.projected.keys() & expected.projected.keys():
        return "it returns no tensors that can be compared with what they should be"
    if pairs and not _show_something([other for _, other in pairs]):
        return "what it returns is nowhere finite, so that nothing can be compared: mend its weights or inputs first"
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
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        if _rounds(call, result):
            self.dtypes.add(_precision(result))
        projection = self._recorder.projection(call.function, call.args, call.kwargs)
        if projection is not None:
            source, name = projection
            self.dtypes.add(_precision(result))
            if self._recorder.call_read_in(source) is not None:
                self.projected.setdefault(name, []).append(result.clone())
        return result


def _rounds(call: FunctionCall, result: Tensor) -> bool:
    """Whether the result has a coarser type than what it was made from: attention that casts its scores down."""
    given = (tensor for tensor in call.tensors() if tensor.is_floating_point())
    return any(tensor.numel() > 1 and _coarsest([tensor.dtype, result.dtype]) != tensor.dtype for tensor in given)


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
    """The largest difference where one is more than rounding, or where one has a NaN or an infinity of its own."""
    left, right = one.detach().double(), other.detach().double()
    finite = left.isfinite() & right.isfinite()
    if not torch.allclose(left[~finite], right[~finite], rtol=0, atol=0, equal_nan=True):
        return float("inf")
    differ = finite & (left != right)
    if not bool(differ.any()):
        return None
    gaps = torch.where(differ, (left - right).abs(), 0)
    return float(gaps.max()) if bool((gaps > rounding * _sizes(right, differ)).any()) else None


def _sizes(values: Tensor, differ: Tensor) -> Tensor:
    """How large the values around each one are: those of its row or of its feature, whichever are smaller.

    One large feature says nothing of the rounding of the others, nor does one large row, nor what agrees to the last
    bit, such as the -1e9 of a mask. Small values may be differences of usual ones, so that none counts as less.
    """
    sizes = torch.where(differ, values.abs(), 0).reshape(-1, values.shape[-1] if values.dim() else 1)
    around = torch.minimum(sizes.amax(0, keepdim=True), sizes.amax(1, keepdim=True))
    usual = float(values[differ].abs().median())
    return around.clamp(min=max(usual, _LEAST)).reshape(values.shape)


def _show_something(tensors: Sequence[Tensor]) -> bool:
    return not any(tensor.numel() for tensor in tensors) or any(bool(tensor.isfinite().any()) for tensor in tensors)


def _times(tensors: Sequence[Tensor]) -> str:
    return f"{len(tensors)} times as " + " and ".join(str(tuple(tensor.shape)) for tensor in tensors)


def _tensors(value: object, seen: set[int] | None = None) -> Iterator[Tensor]:
    """The floating-point tensors in a value, in order, whatever holds them; objects are looked into once."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
        return
    seen = set() if seen is None else seen
    if id(value) not in seen:
        seen.add(id(value))
        for item in _held(value):
            yield from _tensors(item, seen)


def _held(value: object) -> Iterable[object]:
    """What an object is made of: items, fields or attributes."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, type | nn.Module | FunctionType):
        return ()
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    slots = [name for cls in type(value).__mro__ for name in _slots(cls) if hasattr(value, name)]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name) for name in slots)]


def _slots(cls: type) -> Sequence[str]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
