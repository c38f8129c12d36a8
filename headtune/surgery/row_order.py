"""Keeping the rows of a fused projection in their roles when heads are counted otherwise.

Where a projection holds query, key and value of each head side by side (GPT-NeoX, BLOOM), another count cuts it at
other places, and rows of trained queries would turn into keys and values without a word.
"""

from collections.abc import Mapping

import torch
from torch import nn

from headtune.surgery.adapters.linears import made_by_features
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.wiring import Wiring


def keep_roles(model: nn.Module, before: Wiring, after: Wiring) -> None:
    """Move the rows of *model*'s projections, so that what made queries, keys and values goes on doing so.

    Args:
        model: the edited model, whose projections still hold their rows as they were.
        before: the wiring of a block when its rows were trained.
        after: its wiring now.
    """
    old, new = _order(before), _order(after)
    for name, rows in new.items():
        places = [index for _, index in rows]
        sources = [index for _, index in old.get(name, ())]
        if {*rows} != {*old.get(name, ())} and sorted(places) == sorted(sources):
            _move(owner(model, name)[1], dict(zip(places, sources, strict=True)))


def _order(wiring: Wiring) -> dict[str, list[tuple[str, int]]]:
    """For each weight, the rows that make queries, head by head, then those of keys, then those of values."""
    rows: dict[str, list[tuple[str, int]]] = {}
    for role, heads in (("q", wiring.q), ("k", wiring.k), ("v", wiring.v)):
        for features in heads:
            for name, indices in features.items():
                known = rows.setdefault(name, [])
                known += [(role, index) for index in sorted(indices) if (role, index) not in known]
    return rows


def _move(module: nn.Module, source: Mapping[int, int]) -> None:
    """Let output feature *i* of a linear map become what feature ``source[i]`` was."""
    for name, dim in made_by_features(module):
        old = module.get_parameter(name)
        order = torch.tensor([source.get(index, index) for index in range(old.shape[dim])], device=old.device)
        module.register_parameter(name, nn.Parameter(old.detach().index_select(dim, order), old.requires_grad))
