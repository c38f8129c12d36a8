"""A model's blocks, what each is given, and which are alike; and one of them built by itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headtune.errors import MeasurementError, in_words
from headtune.surgery.inputs import Inputs, own_copy
from headtune.surgery.transaction import copied
from headtune.timing.calls import Call, calls_of
from headtune.timing.device import resolve
from headtune.timing.inputs import InputsFactory, mapped, ready_inputs
from headtune.timing.protocol import LatencyProtocol

_LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_PLACE = ("idx", "index", "id")
"""How attributes end that only say where in the model a module stands."""


def blocks_of(
    model: nn.Module, inputs: Inputs | InputsFactory, protocol: LatencyProtocol, paths: Sequence[str]
) -> tuple[dict[object, list[str]], dict[str, Call]]:
    """Path by path, the blocks that alike ones stand for, and the first call of each.

    Raises:
        MeasurementError: the model does not run on the meta device.
    """
    arguments, _ = ready_inputs(inputs, protocol)
    skeleton = copied(model).to("meta")
    blocks = {path: skeleton.get_submodule(path) for path in _split(skeleton, "", tuple(paths))}
    given: Any = mapped(arguments, lambda tensor: tensor.to("meta"))
    try:
        seen = calls_of(skeleton, given, blocks, lambda _, called: own_copy(called))  # caches are filled afterwards
    except Exception as error:  # models raise whatever they like
        raise MeasurementError(
            f"the model does not run on the meta device, where it has sizes and no values: {in_words(error)}"
        ) from error
    calls = {path: made[0] for path, made in seen.items()}
    alike: dict[object, list[str]] = {}
    for path, call in calls.items():
        alike.setdefault(_likeness(blocks[path], call), []).append(path)
    return alike, calls


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
        (at, type(inner), *((key, value) for key, value in sorted(vars(inner).items()) if _is_setting(key, value)))
        for at, inner in block.named_modules()
    ]
    tensors = [(at, tensor.shape, tensor.dtype) for at, tensor in block.state_dict().items()]
    return repr((settings, tensors, _form(call)))


def _is_setting(key: str, value: object) -> bool:
    return isinstance(value, bool | int | float | str) and not key.endswith(_PLACE)


def _form(value: object) -> object:
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), str(value.dtype)
    if isinstance(value, Mapping):
        return {str(key): _form(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_form(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else type(value).__name__


def _drawn(tensor: Tensor, device: torch.device) -> Tensor:
    """Values of the tensor's form: small random ones, or zeros where they count or choose."""
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, dtype=tensor.dtype, device=device) * 0.02
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
