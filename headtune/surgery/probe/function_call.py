"""One call of a PyTorch function, which can be made again with other tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headtune.surgery.probe.operations import Product, product

Function = Callable[..., object]

_OUT_OF_PLACE: dict[object, Function] = {Tensor.baddbmm_: Tensor.baddbmm}
"""What computes the same as a function that writes its result into its first argument."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with its arguments."""

    function: Function
    args: tuple[object, ...]
    kwargs: dict[str, object]

    def run(self) -> object:
        """Make the call."""
        return self.function(*self.args, **self.kwargs)

    def tensors(self) -> Iterator[Tensor]:
        """The tensors among the arguments, one list deep."""
        for value in (*self.args, *self.kwargs.values()):
            for item in value if isinstance(value, list | tuple) else (value,):
                if isinstance(item, Tensor):
                    yield item

    def product(self) -> Product | None:
        """The matrix product of two tensors that this call computes, or None."""
        return product(self.function, self.args, self.kwargs)

    def again(self, swaps: Mapping[Tensor, Tensor]) -> Tensor:
        """The result with other tensors in place of some; nothing is written into.

        What was written into holds the result by now: zeros stand in its place.
        """
        written = self.args[0] if self.function in _OUT_OF_PLACE else None
        if isinstance(written, Tensor):
            swaps = {**swaps, written: torch.zeros_like(written)}

        def swapped(value: object) -> object:
            if isinstance(value, list | tuple):
                return [swapped(item) for item in value]
            return next((new for old, new in swaps.items() if old is value), value)

        function = _OUT_OF_PLACE.get(self.function, self.function)
        result = function(*map(swapped, self.args), **{name: swapped(value) for name, value in self.kwargs.items()})
        assert isinstance(result, Tensor)
        return result
