"""The part of a shared weight that a plan computes with, and which part that is.

A side is what a projection makes (queries, keys, values) or what an output projection reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headtune.heads.site import Hold
from headtune.surgery.adapters.linears import is_conv1d
from headtune.surgery.wiring import Features, Wiring

Picks = Mapping[str, Mapping[int, int]]
"""Name of a weight → feature of the plan's → feature of the shared one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Share:
    """A weight that a plan makes of a shared one.

    Attributes:
        source: the shared weight.
        picks: dimension → indices of what is taken.
        factor: of a stored scale, which follows head_dim.
    """

    source: nn.Parameter
    picks: Mapping[int, Tensor]
    factor: float = 1.0

    def taken(self) -> Tensor:
        """The plan's weight: with gradients on, what is done to it reaches the shared one."""
        if not self.picks and self.factor == 1.0:
            return self.source
        made: Tensor = self.source
        for dim, indices in self.picks.items():
            made = made.index_select(dim, indices)
        made = made if self.factor == 1.0 else made * self.factor
        return made if made.requires_grad else nn.Parameter(made, requires_grad=False)


def made_picks(ours: Wiring, shared: Wiring, hold: Hold) -> dict[str, dict[int, int]]:
    """Of the features that the projections put out, those of *shared* that a plan with the wiring *ours* uses."""
    found: dict[str, dict[int, int]] = {}
    first, firsts = ([wiring.kv_heads.index(head) for head in range(wiring.num_kv_heads)] for wiring in (ours, shared))
    _pair(found, ours.q, shared.q, hold)
    _pair(found, [ours.k[head] for head in first], [shared.k[head] for head in firsts], hold)
    _pair(found, [ours.v[head] for head in first], [shared.v[head] for head in firsts], hold)
    return found


def read_picks(ours: Wiring, shared: Wiring, hold: Hold) -> dict[str, dict[int, int]]:
    """The same of the features that output projections read."""
    found: dict[str, dict[int, int]] = {}
    _pair(found, ours.out, shared.out, hold)
    return found


def why_not_shared(name: str, new: Tensor, old: Tensor | None) -> str:
    """Why the weight *name* cannot be a part of the shared one."""
    if old is None:
        return f"{name} is there only with other counts, so that plans cannot share it"
    return (
        f"{name} changes its shape from {tuple(old.shape)} to {tuple(new.shape)}, and which part of it is a head's "
        "cannot be told; leave such counts out of the space, or use `evaluator: train`"
    )


def share_of(
    module: nn.Module, name: str, new: nn.Parameter, old: nn.Parameter, made: Picks, read: Picks
) -> Share | None:
    """The weight *name* of *module* as a part of *old*; ``None`` where it cannot be told which.

    Args:
        module: who holds it.
        name: in the model.
        new: as surgery drew it.
        old: the shared one of that name.
        made: from :func:`made_picks`.
        read: from :func:`read_picks`.
    """
    if new.dim() != old.dim():
        return None
    picks: dict[int, Tensor] = {}
    for dim, (size, most) in enumerate(zip(new.shape, old.shape, strict=True)):
        if size != most:
            pairs = _pairs(module, name, dim, made, read)
            if sorted(pairs) != list(range(size)) or max(pairs.values()) >= most:
                return None
            picks[dim] = torch.tensor([pairs[feature] for feature in range(size)], device=old.device)
    return Share(source=old, picks=picks, factor=1.0 if picks else _factor(new, old))


def _factor(new: Tensor, old: Tensor) -> float:
    """A stored scale is another with another head_dim; everything else that keeps its shape is the same."""
    if new.numel() != 1 or not old.is_floating_point() or float(old.detach()) == 0.0:
        return 1.0
    return float(new.detach().double() / old.detach().double())


def _pairs(module: nn.Module, name: str, dim: int, made: Picks, read: Picks) -> Mapping[int, int]:
    """The features that stand along one dimension of a weight."""
    path, _, key = name.rpartition(".")
    prefix = f"{path}." if path else ""
    if key == "weight":
        return (made if dim == int(is_conv1d(module)) else read).get(name, {})
    weight = {"bias": "weight", "bias_k": "k_proj.weight", "bias_v": "v_proj.weight"}.get(key, "")
    return made.get(prefix + weight, {})


def _pair(found: dict[str, dict[int, int]], ours: Sequence[Features], shared: Sequence[Features], hold: Hold) -> None:
    for name, mine, whole in _in_order(ours, shared, hold):
        found.setdefault(name, {}).update(zip(mine, whole, strict=False))


def _in_order(
    ours: Sequence[Features], shared: Sequence[Features], hold: Hold
) -> Iterator[tuple[str, list[int], list[int]]]:
    """Head by head where heads stay what they are; all at once where the width is only split otherwise."""
    names = dict.fromkeys(name for features in ours for name in features)
    if hold == "width":
        for name in names:
            yield name, _features(ours, name), _features(shared, name)
        return
    for mine, whole in zip(ours, shared, strict=False):
        for name in mine:
            yield name, _features([mine], name), _features([whole], name)


def _features(side: Sequence[Features], name: str) -> list[int]:
    return [feature for features in side for feature in sorted(features.get(name, ()))]
