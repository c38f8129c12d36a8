"""Forward passes that write into parameters."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headtune.surgery.storage import storage_of


@contextmanager
def values_kept(model: nn.Module) -> Iterator[None]:
    """Undo what is written into the model's parameters inside.

    Only those that are written into are copied, just before: a model's weights need not be held twice.
    """
    guard = _Guard(model)
    try:
        with guard:
            yield
    finally:
        guard.restore()


class _Guard(TorchDispatchMode):
    """Copies what an operation is about to write into; it runs below autograd, and so sees ``parameter.data`` too."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._stored: dict[int, list[Tensor]] = {}
        for data in (parameter.data for parameter in model.parameters()):
            if (storage := storage_of(data)) is not None:
                self._stored.setdefault(storage, []).append(data)

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run an operation, and first copy what it overwrites."""
        given = kwargs or {}
        if func._schema.is_mutable:
            with torch._C.DisableTorchFunction():
                for tensor in _written(func, args, given):
                    self._keep(tensor)
        return func(*args, **given)

    def restore(self) -> None:
        """Give the parameters that were written into their values back."""
        for data, value in self._kept:
            data.copy_(value)

    def _keep(self, tensor: Tensor) -> None:
        if (storage := storage_of(tensor)) is not None:
            self._kept += [(data, data.clone()) for data in self._stored.pop(storage, [])]


def _written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:  # noqa: ANN401
    """The tensors that an operation writes into, by its schema."""
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        yield from (one for one in (value if isinstance(value, list | tuple) else [value]) if isinstance(one, Tensor))
