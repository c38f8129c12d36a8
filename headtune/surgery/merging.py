"""Sharing key/value heads between query heads of a trained model, by the mean of those that become one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import adapter_for
from headtune.surgery.adapters.linears import is_conv1d
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.wiring import Features, Wiring

Groups = Sequence[Sequence[Features]]
"""For each key/value head that remains, the features of the heads that become it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What one site shares.

    Attributes:
        pools: weight → for each head that remains, the features of the heads that become it, aligned.
    """

    site: AttentionSite
    num_kv_heads: int
    pools: Mapping[str, tuple[tuple[tuple[int, ...], ...], ...]]

    @classmethod
    def of(cls, site: AttentionSite, wiring: Wiring, num_kv_heads: int) -> "Merge":
        """The merge of a site's key/value heads into *num_kv_heads* groups of neighbours."""
        size = site.num_heads // num_kv_heads
        pools: dict[str, list[tuple[tuple[int, ...], ...]]] = {}
        for first in range(0, site.num_heads, size):
            for side in (wiring.k, wiring.v):
                distinct = dict.fromkeys(
                    (name, tuple(sorted(found))) for one in side[first : first + size] for name, found in one.items()
                )
                for name in dict.fromkeys(name for name, _ in distinct):
                    pools.setdefault(name, []).append(tuple(found for other, found in distinct if other == name))
        return cls(site=site, num_kv_heads=num_kv_heads, pools={name: tuple(found) for name, found in pools.items()})


def expand(model: nn.Module, merge: Merge) -> None:
    """Give every head of a group the group's mean: what merging computes, without sharing."""
    for name, pools in merge.pools.items():
        module = owner(model, name)[1]
        for parameter, dim in _sliced(module):
            pooled = _pooled(module.get_parameter(parameter), dim, pools)
            module.register_parameter(parameter, pooled)


def drop(merge: Merge) -> Mapping[str, frozenset[int]]:
    """The features that are left over once each group's first head holds its mean."""
    return {
        name: frozenset(index for pool in pools for head in pool[1:] for index in head)
        for name, pools in merge.pools.items()
    }


def _sliced(module: nn.Module) -> list[tuple[str, int]]:
    """The parameters whose entries belong to output features, and along which dimension."""
    weight = [("weight", 1 if is_conv1d(module) else 0)]
    return weight + ([("bias", 0)] if module._parameters.get("bias") is not None else [])


def _pooled(old: nn.Parameter, dim: int, pools: tuple[tuple[tuple[int, ...], ...], ...]) -> nn.Parameter:
    new = old.detach().clone()
    for pool in pools:
        heads = [old.detach().index_select(dim, torch.tensor(head, device=old.device)) for head in pool]
        mean = torch.stack(heads).double().mean(0).to(old.dtype)
        for head in pool:
            new.index_copy_(dim, torch.tensor(head, device=old.device), mean)
    return nn.Parameter(new, old.requires_grad)
