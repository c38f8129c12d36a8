"""A model's blocks, what each is given, and which are alike; and one of them built by itself."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from headtune.errors import MeasurementError, in_words
from headtune.surgery.inputs import Inputs, own_copy
from headtune.surgery.transaction import copied
from headtune.timing.calls import Call, calls_of
from headtune.timing.device import resolve
from headtune.timing.inputs import mapped
from headtune.timing.protocol import LatencyProtocol

_LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_PLACE = re.compile(r"(.*_)?(idx|index|id)")
"""Attributes that only say where in the model a module stands."""

_INTERNAL = frozenset(vars(nn.Module()))
"""What every module has: hooks, and what holds parameters, buffers and modules."""


def blocks_of(model: nn.Module, arguments: Inputs, paths: Sequence[str]) -> list[list[tuple[str, Call]]]:
    """The calls of blocks by path, those that are alike together, in the order of the first of them.

    Raises:
        MeasurementError: the model does not run on the meta device.
    """
    skeleton = copied(model).to("meta")
    blocks = {path: skeleton.get_submodule(path) for path in _split(skeleton, "", tuple(paths))}
    given: Any = mapped(arguments, lambda tensor: tensor.to("meta"))
    try:
        seen = calls_of(skeleton, given, blocks, lambda _, called: own_copy(called))  # caches are filled afterwards
    except Exception as error:  # models raise whatever they like
        raise MeasurementError(
            f"the model does not run on the meta device, where it has sizes and no values: {in_words(error)}"
        ) from error
    alike: dict[object, list[tuple[str, Call]]] = {}
    for path, calls in seen.items():
        for call in calls:
            alike.setdefault(_likeness(blocks[path], call), []).append((path, call))
    return list(alike.values())


def materialised(model: nn.Module, path: str, call: Call, protocol: LatencyProtocol) -> tuple[nn.Module, Inputs]:
    """One block with weights of its own, and arguments of the sizes that it gets.

    Keyword arguments come last, so that positional and keyword ones can be given together.
    """
    device = torch.device(resolve(protocol, torch.get_num_threads()).device)
    block = copied(model.get_submodule(path)).to_empty(device=device)
    with torch.no_grad():
        for tensor in [*block.parameters(), *block.buffers()]:
            tensor.copy_(_drawn(tensor, device))
    args, kwargs = call
    given: Any = mapped((*args, dict(kwargs)), lambda tensor: _drawn(tensor, device))
    return _Called(block, len(args)), given


class _Called(nn.Module):
    """A block that takes its keyword arguments as the last positional one."""

    def __init__(self, block: nn.Module, positional: int) -> None:
        super().__init__()
        self.block, self.positional = block, positional

    def forward(self, *given: Any) -> Any:  # noqa: ANN401
        return self.block(*given[: self.positional], **given[self.positional])


def _split(module: nn.Module, name: str, paths: Sequence[str]) -> Iterator[str]:
    """The paths of the blocks: no list of layers that holds attention lies within one."""
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}" if name else child_name
        if _holds_list(child, path, paths):
            yield from _split(child, path, paths)
        else:
            yield path


def _holds_list(module: nn.Module, name: str, paths: Sequence[str]) -> bool:
    """Whether it is, or holds, a list of layers in which attention lies."""
    return any(
        isinstance(inner, _LISTS) and any(path.startswith(f"{name}.{at}." if at else f"{name}.") for path in paths)
        for at, inner in module.named_modules()
    )


def _likeness(block: nn.Module, call: Call) -> object:
    """Equal for blocks that take the same time: their modules, settings, tensors and arguments are of one form."""
    settings = [
        (at, type(inner), {key: _form(value) for key, value in sorted(vars(inner).items()) if _is_setting(key)})
        for at, inner in block.named_modules()
    ]
    tensors = [(at, _form(one)) for at, one in chain(block.named_parameters(), block.named_buffers())]
    return repr((settings, tensors, _form(call)))


def _is_setting(key: str) -> bool:
    return key not in _INTERNAL and _PLACE.fullmatch(key) is None


def _form(value: object) -> object:
    """What a block's time may depend on in a value: sizes of tensors, plain values, the code of functions."""
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), str(value.dtype)
    if isinstance(value, Mapping):
        return {str(key): _form(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_form(item) for item in value]
    if isinstance(value, FunctionType):
        closed = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        return id(value.__code__), [_form(item) for item in closed]
    return value if isinstance(value, bool | int | float | str | None) else type(value).__name__


def _drawn(tensor: Tensor, device: torch.device) -> Tensor:
    """Values of the tensor's form: small random ones, or zeros where they count or choose."""
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, dtype=tensor.dtype, device=device) * 0.02
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
