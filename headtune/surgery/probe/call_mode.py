"""Seeing every PyTorch function that is called."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch.overrides import TorchFunctionMode

from headtune.surgery.probe.function_call import Function, FunctionCall


class CallMode(TorchFunctionMode, ABC):
    """While it is entered, hands every call to :meth:`see`, whose result the caller gets."""

    @abstractmethod
    def see(self, call: FunctionCall) -> object:
        """Make the call, or something else in its place."""

    def __torch_function__(
        self,
        func: Function,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        return self.see(FunctionCall(func, args, dict(kwargs or {})))
