"""A linear map of which several output features are one and the same."""

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SharedLinear(nn.Module):
    """``nn.Linear`` whose output features are fewer ones, each put out as often as it is shared.

    It makes the key/value heads that query heads share, where the block's own ``forward`` knows only as many key/value
    heads as query heads. The weights and the work of this map shrink; the attention that follows, and a cache of its
    keys and values, do not.

    Args:
        in_features: features that come in.
        made: features that are computed.
        out_features: features that are put out: all of the first computed one, until :meth:`put_out` says which.
        bias: whether it has one.
        device: of all tensors.
        dtype: of the parameters.
    """

    source: Tensor

    def __init__(
        self,
        in_features: int,
        made: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.weight = nn.Parameter(torch.zeros(made, in_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(made, device=device, dtype=dtype)) if bias else None
        self.register_buffer("source", torch.zeros(out_features, dtype=torch.long, device=device))

    @property
    def made(self) -> int:
        """How many features are computed."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """How many features are put out."""
        return self.source.shape[0]

    def put_out(self, source: Sequence[int]) -> None:
        """Put the computed features of these numbers out, in this order."""
        self.source = torch.tensor(source, device=self.weight.device)

    def forward(self, input: Tensor) -> Tensor:
        """``(…, in_features)`` to ``(…, out_features)``."""
        return F.linear(input, self.weight, self.bias).index_select(-1, self.source)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        numbers = self.source
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.source.dtype != numbers.dtype:  # module.type(…) casts them too, and a float does not hold them all
            self.source = numbers.to(self.source.device)
        return self

    def extra_repr(self) -> str:
        """The sizes, as ``nn.Linear`` shows them."""
        return (
            f"in_features={self.in_features}, made={self.made}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
