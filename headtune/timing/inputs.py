"""The arguments of a forward pass: where they come from, their sizes, their tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from headtune.errors import InputError
from headtune.surgery.inputs import Inputs, own_copy
from headtune.timing.protocol import LatencyProtocol

InputsFactory = Callable[[int, int | None], Inputs]
"""``(batch_size, seq_len) -> Inputs``."""


class Given:
    """The arguments of forward, which can be made again what they were: a pass may fill a cache among them, and the
    next one would find it fuller.

    Attributes:
        args: positional arguments.
        kwargs: keyword arguments.
    """

    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._used_up = _holds_objects(inputs)
        self._hand_out(own_copy(inputs) if self._used_up else inputs)

    def renew(self) -> None:
        """Undo what passes did to objects among the arguments."""
        if self._used_up:
            self._hand_out(own_copy(self._inputs))

    def _hand_out(self, inputs: Inputs) -> None:
        self.args, self.kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})


def ready_inputs(inputs: Inputs | InputsFactory, protocol: LatencyProtocol) -> tuple[Inputs, LatencyProtocol]:
    """The arguments of forward, and the protocol with their sizes.

    A callable is called with the protocol's sizes. From ready arguments the sizes are read, off the first tensor:
    examples along its first dimension, and positions along the second of a 2-d or 3-d one.

    Raises:
        InputError: neither a tuple nor a mapping with names for keys, or ready ones that begin with an empty tensor.
    """
    if callable(inputs) and not isinstance(inputs, nn.Module | Mapping):
        return _checked(inputs(protocol.batch_size, protocol.length)), protocol
    checked = _checked(inputs)
    return checked, _sized(protocol, checked)


def leaves(value: object) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and mappings, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)


def held_tensors(value: object) -> Iterator[Tensor]:
    """The tensors in containers and in the attributes of objects, such as caches and outputs, each once, in order."""
    seen: set[int] = set()
    rest: list[object] = [value]
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, Mapping):
            rest += reversed(list(one.values()))
        elif isinstance(one, tuple | list):
            rest += reversed(one)
        elif hasattr(one, "__dict__") and not isinstance(one, type | nn.Module):
            rest += reversed(list(vars(one).values()))


def placed(value: object, device: torch.device, dtype: torch.dtype) -> object:
    """The same nest of tuples, lists and mappings with its tensors on the device, the floating ones in the dtype."""
    return mapped(value, lambda tensor: tensor.to(device, dtype if tensor.is_floating_point() else None))


def mapped(value: object, change: Callable[[Tensor], Tensor]) -> object:
    """The same nest of tuples, lists and mappings with its tensors changed; what holds none is handed on as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if next(leaves(value), None) is None:
        return value
    if isinstance(value, Mapping):
        return {key: mapped(item, change) for key, item in value.items()}
    assert isinstance(value, tuple | list)
    items = [mapped(item, change) for item in value]
    rebuild: Callable[..., object] = type(value)
    return rebuild(items) if rebuild in (tuple, list) else rebuild(*items)  # else a named tuple


def _holds_objects(value: object) -> bool:
    """Whether a nest holds what has a state beside tensors, such as a cache."""
    if isinstance(value, Mapping):
        return any(map(_holds_objects, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_holds_objects, value))
    return hasattr(value, "__dict__") and not isinstance(value, Tensor | nn.Module | type) and not callable(value)


def _checked(inputs: object) -> Inputs:
    if isinstance(inputs, tuple):
        return inputs
    if isinstance(inputs, Mapping) and all(isinstance(key, str) for key in inputs):
        return dict(inputs)
    kind = "a mapping with keys that are no names" if isinstance(inputs, Mapping) else f"a {type(inputs).__name__}"
    remedy = "wrap it as (tensor,)" if isinstance(inputs, Tensor) else "return one of these"
    raise InputError(f"inputs: expected a tuple of positional or a dict of keyword arguments, got {kind}; {remedy}")


def _sized(protocol: LatencyProtocol, inputs: Inputs) -> LatencyProtocol:
    first = next(leaves(inputs), None)
    if first is None or first.dim() == 0:
        return protocol
    if first.numel() == 0:
        raise InputError(f"inputs: the first tensor is empty (shape {list(first.shape)}); give one example at least")
    seq_len = first.shape[1] if first.dim() in (2, 3) else protocol.seq_len
    return replace(protocol, batch_size=first.shape[0], seq_len=seq_len)
