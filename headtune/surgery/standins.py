"""Other weights in place of those that would hide what a model computes, for as long as it is compared."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from headtune.surgery.inputs import Inputs
from headtune.surgery.rng import seed_for
from headtune.surgery.snapshot import Snapshot

_HALVES = (torch.float16, torch.bfloat16)
_PLAIN = (*_HALVES, torch.float32, torch.float64)


@contextmanager
def stood_in(model: nn.Module, inputs: Inputs) -> Iterator[tuple[Inputs, bool]]:
    """Let *model* compute in float32 or finer, and with random numbers where its weights are zero or not finite.

    Half precision rounds so coarsely that an error of a few percent passes for it; what is projected by zeros is zero
    whatever it was; and NaN equals NaN. The random numbers are the same for the same weight of every model.

    Yields:
        The inputs, in float32 where they were half, and whether anything is another than before.
    """
    snapshot = Snapshot.of(model)
    devices = sorted({"cpu", *(tensor.device.type for tensor in model.parameters())} - {"meta"})
    cast = [device for device in devices if torch.is_autocast_enabled(device)]
    try:
        with torch.inference_mode(False), torch.no_grad():
            changed = _stand_in(model)
        with ExitStack() as stack:
            for device in cast:
                stack.enter_context(torch.autocast(device, enabled=False))
            yield _widened(inputs), changed or bool(cast)
    finally:
        snapshot.restore()


def _stand_in(model: nn.Module) -> bool:
    """Whether parameters or buffers of *model* gave way to others; a tensor that several modules hold, to one."""
    new: dict[int, Tensor] = {}
    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if type(parameter) is not nn.Parameter or parameter.dtype not in _PLAIN or parameter.is_meta:
                continue
            if id(parameter) not in new:
                # A bias of zero hides nothing, nor does the row of an embedding that stands for padding.
                may_be_zero = "bias" in name or isinstance(module, nn.Embedding)
                new[id(parameter)] = _shown(parameter, f"{path}.{name}", may_be_zero=may_be_zero)
            module._parameters[name] = new[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.dtype in _HALVES:
                module._buffers[name] = new.setdefault(id(buffer), buffer.float())
    return any(id(tensor) != old for old, tensor in new.items())


def _shown(parameter: nn.Parameter, name: str, *, may_be_zero: bool) -> nn.Parameter:
    """The same in float32 or finer, with random numbers where it hides something; itself where it is that already."""
    half = parameter.dtype in _HALVES
    values = parameter.detach().float() if half else parameter.detach()
    hidden = ~values.isfinite() if may_be_zero else ~values.isfinite() | _zero_lines(values)
    if bool(hidden.any()):
        generator = torch.Generator().manual_seed(seed_for(name, 0))
        drawn = torch.randn(values.shape, generator=generator, device="cpu") / max(1, *values.shape[-1:]) ** 0.5
        values = torch.where(hidden, drawn.to(values), values)
    elif not half:
        return parameter
    return nn.Parameter(values, parameter.requires_grad)


def _zero_lines(values: Tensor) -> Tensor:
    """Which values lie in a row or a column of zeros; a vector is one row, and has no columns."""
    zero = (values == 0).reshape(len(values) if values.dim() > 1 else 1, -1)
    lines = zero.all(1, keepdim=True).expand_as(zero)
    return (lines | zero.all(0) if values.dim() > 1 else lines).reshape(values.shape)


def _widened(inputs: Inputs) -> Inputs:
    if isinstance(inputs, tuple):
        return tuple(_wide(value) for value in inputs)
    return {name: _wide(value) for name, value in inputs.items()}


def _wide(value: object) -> object:
    """A value with float32 in place of every half-precision tensor in it."""
    if isinstance(value, Tensor):
        return value.float() if value.dtype in _HALVES else value
    if isinstance(value, list):
        return [_wide(item) for item in value]
    if type(value) is tuple:
        return tuple(_wide(item) for item in value)
    if type(value) is dict:
        return {name: _wide(item) for name, item in value.items()}
    return value
