"""How alike the heads of one attention block are: sums over many batches, from which means are taken at the end.

B batch, H heads, T queries, S keys, D features per head, N queries that count.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headtune.surgery import Captured

_ROUNDING = 1e-10
"""Of a square: what float32 leaves of a value that does not change."""


@dataclass(slots=True)
class Likeness:
    """What was seen of one block so far.

    Args:
        own: whether queries and keys are the same positions, as they are but in cross-attention.
    """

    own: bool
    count: int = 0
    _cosines: Tensor | None = None
    _outputs: "_Covariance" = field(default_factory=lambda: _Covariance())
    _looks: Tensor | None = None
    _before: int = 0

    def add(self, seen: Captured) -> None:
        """Count what *seen* holds.

        A query that can see one key only looks at it with every head, and tells nothing. Nor does one that is padding:
        in self-attention, one whose own key no query sees.
        """
        maps_BHTS = seen.maps.to(torch.promote_types(seen.maps.dtype, torch.float32))
        visible_BTS = maps_BHTS.ne(0).any(1)
        keys_BT = visible_BTS.sum(-1)
        counts_BT = keys_BT > 1
        if self.own:
            counts_BT &= visible_BTS.any(1)
        rows_NHS = maps_BHTS.transpose(1, 2)[counts_BT]
        self.count += len(rows_NHS)
        unit_HR = torch.nn.functional.normalize(rows_NHS, dim=-1).transpose(0, 1).flatten(1)
        self._cosines = _plus(self._cosines, unit_HR @ unit_HR.T)
        self._outputs.add(seen.outputs[counts_BT])
        share_NH = _perplexity(rows_NHS) / keys_BT[counts_BT][:, None]
        looks_3H = torch.stack([share_NH.sum(0), *(self._offset(maps_BHTS, counts_BT, back) for back in (0, 1))])
        self._looks = _plus(self._looks, looks_3H)
        self._before += int(counts_BT[:, 1:].sum())

    @property
    def maps(self) -> Tensor:
        """``(H, H)`` mean cosine similarity of two heads' attention to the same keys."""
        assert self._cosines is not None
        return _with_ones(self._cosines / self.count)

    @property
    def outputs(self) -> Tensor:
        """``(H, H)`` linear CKA of two heads' outputs."""
        return self._outputs.alignment()

    @property
    def looks(self) -> tuple[Tensor, Tensor, Tensor]:
        """``(H,)`` each: share of the visible keys attended to, weight on the own position, on the one before."""
        assert self._looks is not None
        share_H, own_H, before_H = self._looks
        return share_H / self.count, own_H / self.count, before_H / max(1, self._before)

    def _offset(self, maps_BHTS: Tensor, counts_BT: Tensor, back: int) -> Tensor:
        """``(H,)`` summed weight of queries on the key so many positions back; zeros between different positions."""
        if not self.own:
            return maps_BHTS.new_zeros(maps_BHTS.shape[1])
        diagonal_BHT = maps_BHTS.diagonal(-back, -2, -1)
        return (diagonal_BHT * counts_BT[:, None, back:]).sum((0, 2))


@dataclass(slots=True)
class _Covariance:
    """Running second moments of features that heads put out."""

    count: int = 0
    sums: Tensor | None = None
    products: Tensor | None = None
    heads: int = 0

    def add(self, outputs_NHD: Tensor) -> None:
        """Count N more."""
        self.heads = outputs_NHD.shape[1]
        flat = outputs_NHD.flatten(1).double()
        self.count += len(flat)
        self.sums = _plus(self.sums, flat.sum(0))
        self.products = _plus(self.products, flat.T @ flat)

    def alignment(self) -> Tensor:
        """``(H, H)`` linear centred kernel alignment; 0 with a head whose output never changes.

        References:
            Kornblith et al., Similarity of neural network representations revisited, 2019, https://arxiv.org/abs/1905.00414
        """
        assert self.sums is not None
        assert self.products is not None
        mean = self.sums / self.count
        covariance = self.products / self.count - torch.outer(mean, mean)
        blocks_HHDD = covariance.unflatten(0, (self.heads, -1)).unflatten(2, (self.heads, -1)).transpose(1, 2)
        together_HH = blocks_HHDD.square().sum((-2, -1))
        own_H = together_HH.diagonal().sqrt()
        changes_H = self._changes(covariance)
        aligned_HH = together_HH / torch.outer(own_H, own_H).clamp_min(torch.finfo(torch.float64).tiny)
        return _with_ones(torch.where(torch.outer(changes_H, changes_H), aligned_HH, 0.0))

    def _changes(self, covariance: Tensor) -> Tensor:
        """``(H,)`` whether a head's output varies by more than rounding, as one that is always the same may seem to."""
        assert self.products is not None
        variance_H, square_H = (
            found.diagonal().unflatten(0, (self.heads, -1)).sum(-1)
            for found in (covariance, self.products / self.count)
        )
        changes_H: Tensor = variance_H > _ROUNDING * square_H
        return changes_H


def _perplexity(rows_NHS: Tensor) -> Tensor:
    """``(N, H)`` number of keys that a row of attention spreads over as evenly as over so many."""
    found: Tensor = torch.special.entr(rows_NHS).sum(-1).exp()
    return found


def _plus(before: Tensor | None, more: Tensor) -> Tensor:
    wide = more.detach().double().cpu()
    return wide if before is None else before + wide


def _with_ones(found_HH: Tensor) -> Tensor:
    return found_HH.fill_diagonal_(1.0)
