"""Forward passes in which some modules run another function, for the length of one pass."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

Function = Callable[..., Any]
_OWN = "forward"


class Rerouted(nn.Module):
    """A model that runs, in each pass, functions of ours where some of its modules would run their ``forward``.

    Between passes the model is as it was. A function stands in the module's instance dictionary, so that neither the
    model's own code nor the conditions of PyTorch's fast paths, which look for hooks, see a difference.

    Args:
        model: the model; not copied.
        functions: module of the model → what it runs instead.
        ordinary: whether PyTorch's fused encoder layers, which run no module inside of them, are off during the pass.
    """

    def __init__(self, model: nn.Module, functions: Mapping[nn.Module, Function], *, ordinary: bool = False) -> None:
        super().__init__()
        self.model = model
        self._functions = tuple(functions.items())
        self._ordinary = ordinary

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """One pass of the model."""
        before = [(module, vars(module).get(_OWN)) for module, _ in self._functions]
        fast = torch.backends.mha.get_fastpath_enabled()
        try:
            if self._ordinary:
                torch.backends.mha.set_fastpath_enabled(False)
            for module, function in self._functions:
                vars(module)[_OWN] = function
            return self.model(*args, **kwargs)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            _put_back(before)


def _put_back(before: Sequence[tuple[nn.Module, Function | None]]) -> None:
    for module, function in before:
        if function is None:
            vars(module).pop(_OWN, None)
        else:
            vars(module)[_OWN] = function
