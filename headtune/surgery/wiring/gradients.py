"""Which outputs of which projections a tensor depends on, by gradients."""

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef

from headtune.surgery.wiring.wiring import Features


class Leaves:
    """The outputs of a model's projections, each cut out of the graph, so that no gradient goes past it.

    Attributes:
        widths: name of a projection's weight → how many features it puts out.
    """

    def __init__(self) -> None:
        self.widths: dict[str, int] = {}
        self._leaves: list[tuple[str, int, TensorWeakRef]] = []

    def cut(self, name: str, result: Tensor, dim: int) -> Tensor:
        """A tensor like *result* whose graph begins here; a copy, so that it may be written into.

        Args:
            name: of the projection's weight.
            result: what the projection put out.
            dim: the dimension of its features.
        """
        leaf = result.detach().requires_grad_()
        self.widths[name] = result.shape[dim]
        self._leaves.append((name, dim, TensorWeakRef(leaf)))
        with torch.enable_grad():
            return leaf.clone()

    def features(self, tensor: Tensor) -> Features:
        """Which features of which projections *tensor* is made of."""
        if not tensor.requires_grad:
            return {}
        alive = [(name, dim, leaf) for name, dim, weak in self._leaves if (leaf := weak()) is not None]
        # Random factors, since a plain sum over normalised features is constant.
        with torch.enable_grad():
            total = (tensor * torch.randn_like(tensor)).sum()
        gradients = torch.autograd.grad(total, [leaf for _, _, leaf in alive], retain_graph=True, allow_unused=True)
        found: dict[str, frozenset[int]] = {}
        for (name, dim, _), gradient in zip(alive, gradients, strict=True):
            if gradient is not None:
                by_feature = gradient.movedim(dim, -1).reshape(-1, gradient.shape[dim])
                touched = by_feature.ne(0).any(0).nonzero().flatten().tolist()
                if touched:
                    found[name] = found.get(name, frozenset()) | frozenset(touched)
        return found
