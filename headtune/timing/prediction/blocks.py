"""A model's blocks, what each is given, and which are alike; and one of them built by itself."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headtune.errors import MeasurementError, in_words
from headtune.surgery.inputs import Inputs, own_copy
from headtune.surgery.snapshot import evaluating
from headtune.timing.device import resolve
from headtune.timing.inputs import InputsFactory, ready_inputs
from headtune.timing.protocol import LatencyProtocol

_LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_PLACE = ("idx", "index", "id")
"""How attributes end that only say where in the model a module stands."""

Call = tuple[tuple[object, ...], Mapping[str, object]]
"""What a block is given: positional and keyword arguments, their tensors on the meta device."""


def blocks_of(
    model: nn.Module, inputs: Inputs | InputsFactory, protocol: LatencyProtocol, paths: Sequence[str]
) -> tuple[dict[object, list[str]], dict[str, Call]]:
    """Path by path, the blocks that alike ones stand for, and the first call of each.

    Raises:
        MeasurementError: the model does not run on the meta device.
    """
    arguments, _ = ready_inputs(inputs, protocol)
    skeleton = copy.deepcopy(model).to("meta")
    calls: dict[str, Call] = {}
    names = {path: skeleton.get_submodule(path) for path in _split(skeleton, "", tuple(paths))}
    hooks = [module.register_forward_pre_hook(_noting(calls, path), with_kwargs=True) for path, module in names.items()]
    try:
        with evaluating(skeleton), torch.no_grad():
            given = on_meta(arguments)
            skeleton(*given) if isinstance(given, tuple) else skeleton(**given)
    except Exception as error:  # models raise whatever they like
        raise MeasurementError(
            f"the model does not run on the meta device, where it has sizes and no values: {in_words(error)}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    alike: dict[object, list[str]] = {}
    for path, call in calls.items():
        alike.setdefault(_likeness(names[path], call), []).append(path)
    return alike, calls


def materialised(model: nn.Module, path: str, call: Call, protocol: LatencyProtocol) -> tuple[nn.Module, Inputs]:
    """One block with weights of its own, and arguments of the sizes that it gets.

    Keyword arguments come last, so that positional and keyword ones can be given together.
    """
    device = torch.device(resolve(protocol, torch.get_num_threads()).device)
    block = copy.deepcopy(model.get_submodule(path)).to_empty(device=device)
    with torch.no_grad():
        for tensor in [*block.parameters(), *block.buffers()]:
            tensor.copy_(_drawn(tensor, device))
    args, kwargs = call
    return _Called(block, len(args)), _real((*args, dict(kwargs)), device)


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


def _noting(calls: dict[str, Call], path: str) -> Any:  # noqa: ANN401
    def note(module: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        if path not in calls:
            calls[path] = own_copy((args, dict(kwargs)))  # a cache among them is filled afterwards

    return note


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


def on_meta(value: Any) -> Any:  # noqa: ANN401
    """The same nest with its tensors on the meta device."""
    return _mapped(value, lambda tensor: tensor.to("meta"))


def _real(value: Any, device: torch.device) -> Any:  # noqa: ANN401
    return _mapped(value, lambda tensor: _drawn(tensor, device))


def _mapped(value: Any, change: Any) -> Any:  # noqa: ANN401
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_mapped(item, change) for item in value)
    return value


def _drawn(tensor: Tensor, device: torch.device) -> Tensor:
    """Values of the tensor's form: small random ones, or zeros where they count or choose."""
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, dtype=tensor.dtype, device=device) * 0.02
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
